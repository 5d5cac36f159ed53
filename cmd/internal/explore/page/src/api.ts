// What the server answers; ../../API.md explains each field.

export interface Settings {
  mechanism: string;
  epsilon: number;
  delta: number;
  interval: number;
  budget: number; // of a day; 0: none
  hours: string; // such as 06:00-20:00, UTC; empty: always
  lag: number; // steps that smoothing waits for; -1: all records
  seed: number;
}

// About says which sides a page has, and whether it shows the sample.
export interface About {
  truth: boolean; public: boolean; sample: boolean;
  ratio: number; // width of the map through its height
  step_s: number;
  user: string; // that is looked at first
  defaults: Settings;
}

// Blocks say where blocks of cells lie on the map, how many there are, and the side of one in cells.
export interface Blocks { column: number; row: number; width: number; height: number; block: number; data: string }

export interface Field extends Blocks { max: number; blocks: number }

export interface MapInfo {
  width: number; height: number; // cells
  cell_km: number;
  step_s: number;
  south: number; west: number; north: number; east: number;
  popularity: Field;
  private: boolean; // trained with differential privacy
}

export interface Users { names: string[]; fixes: number[] }

export interface Errors { rms: number; mean: number; median: number }

export interface Summary { releases: number; spent: number; estimate_m: Errors; blind_m: Errors }

export type Column = (number | null)[];

export interface Place { x: number; y: number }

// Line is a line below the maps, or a place with a name: kilometres east and north in turn.
export interface Line { name: string; places: number[] }

// Rows are what is computed fix by fix: columns from one fix on, and how many are done.
export interface Rows { total: number; from: number; done: number; time_ms: number[] }

export interface Course extends Rows {
  user: string;
  settings: Settings;
  kind: string[];
  truth_x: number[]; truth_y: number[];
  release_x: Column; release_y: Column;
  estimate_x: Column; estimate_y: Column; radius_km: Column;
  blind_x: Column; blind_y: Column;
  spent: number[]; spent_24h: number[];
  summary: Summary;
}

// Past is what later records tell about each report.
export interface Past extends Rows { x: Column; y: Column; off_km: Column }

export interface Anatomy {
  number: number;
  time_ms: number;
  kind: string;
  truth: Place;
  cell_prior: number | null;
  prior: Field | null;
  codebook: {
    points: (Place & { prior: number })[];
    votes: Blocks;
    own: number; drawn: number;
    own_chance: number; other_chance: number;
  } | null;
  set: { cells: Field; size: number; hull: Place[]; body: Place[]; surrogate: Place; drift: boolean } | null;
  likelihood: Field | null;
  likelihood_range: number;
  posterior: Field | null;
  release: Place | null;
  estimate: Place | null;
  radius_km: number;
  ellipse: { major_km: number; minor_km: number; azimuth_deg: number } | null;
  spent: number;
}

export interface Span { start_ms: number; end_ms: number; vehicles: number }

// Off is the share of the vehicles that maps show in a wrong zone; null: nobody is there, or the truth is hidden.
export interface Off { typical: number | null; daily: number | null; each: number | null; even: number | null }

export interface Usual {
  epsilon: number; // for all days
  days: number; weekdays: string; from: string; to: string; clock: string;
  simulated: boolean;
  vehicles: number | null; // the truth is hidden: null
  per_day: number;
  zones: string; // what they are
  zone_km: number;
  half_width: number;
  gain: number; // by how much less a map is off than an even one if it is worth something
  slots: { start_ms: number; end_ms: number; off: Off }[]; // since midnight
  off: Off; // at all times
  truth: Field | null; typical: Field; daily: Field;
}

// Wrong is what the server says is wrong with a question.
export class Wrong extends Error {}

// ask asks the server, below the address of the page, which may hold a token.
export async function ask<T>(
  question: string,
  parameters: Record<string, string | number> = {},
  signal?: AbortSignal,
): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) query.set(name, String(value));
  let answer: Response;
  try {
    answer = await fetch(`api/${question}?${query}`, { signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Wrong("The server does not answer. Is geodither still running?");
  }
  const value = await answer.json();
  if (!answer.ok) throw new Wrong(value.error ?? `The server answers ${answer.status}.`);
  return value as T;
}

// bytes decodes base64.
export function bytes(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}
