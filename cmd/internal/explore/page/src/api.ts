// What the server answers; ../../API.md explains each field.

export interface Settings {
  mechanism: string;
  epsilon: number;
  delta: number;
  interval: number;
  near_km: number;
  near_factor: number;
  budget: number; // of a day; 0: none
  hours: string; // such as 06:00-20:00, UTC; empty: always
  lag: number; // steps that smoothing waits for; -1: all records
  cell_m: number;
  seed: number;
}

export interface About {
  truth: boolean;
  sample: boolean;
  public: boolean;
  lines: boolean;
  users: number;
  step_s: number;
  mechanisms: string[];
  cells_m: number[];
  defaults: Settings;
}

export interface Field {
  column: number;
  row: number;
  width: number;
  height: number;
  block: number; // side of a block in cells
  max: number;
  blocks: number;
  data: string;
}

export interface MapInfo {
  model_id: string;
  width: number;
  height: number;
  cell_km: number;
  step_s: number;
  south: number;
  west: number;
  north: number;
  east: number;
  popularity: Field;
  private: boolean; // trained with differential privacy
}

export interface Users {
  total: number;
  from: number;
  names: string[];
  fixes: number[];
}

export interface Errors {
  rms: number;
  mean: number;
  median: number;
}

export interface Summary {
  releases: number;
  repeats: number;
  predictions: number;
  late: number;
  refused: number;
  spent: number;
  location_set_mean: number;
  drift_ratio: number;
  near_share_mean: number | null;
  release_m: Errors;
  estimate_m: Errors;
  blind_m: Errors;
}

type Column = (number | null)[];

export interface Course {
  user: string;
  settings: Settings;
  step_s: number;
  cell_km: number;
  total: number;
  from: number;
  done: number;
  time_ms: number[];
  kind: string[];
  truth_x: number[];
  truth_y: number[];
  release_x: Column;
  release_y: Column;
  estimate_x: Column;
  estimate_y: Column;
  radius_km: Column;
  blind_x: Column;
  blind_y: Column;
  spent: number[];
  set_size: number[];
  near_share: Column;
  summary: Summary;
}

// Past is what later records tell about each report.
export interface Past {
  total: number;
  from: number;
  done: number;
  time_ms: number[];
  x: Column;
  y: Column;
  radius_km: Column;
  off_km: Column;
}

export interface Place {
  x: number;
  y: number;
}

export interface Votes {
  column: number;
  row: number;
  width: number;
  height: number;
  block: number;
  data: string;
}

export interface Anatomy {
  number: number;
  time_ms: number;
  kind: string;
  truth: Place;
  cell: Place;
  cell_prior: number | null;
  prior: Field | null;
  codebook: {
    points: (Place & { prior: number; posterior: number })[];
    votes: Votes;
    own: number;
    drawn: number;
    own_chance: number | null;
    other_chance: number | null;
  } | null;
  set: {
    cells: Field;
    size: number;
    hull: Place[];
    body: Place[];
    surrogate: Place;
    drift: boolean;
  } | null;
  likelihood: Field | null;
  likelihood_range: number;
  posterior: Field | null;
  release: Place | null;
  estimate: Place | null;
  radius_km: number;
  ellipse: { major_km: number; minor_km: number; azimuth_deg: number } | null;
  epsilon: number;
  spent: number;
  metric: { within_200m: number; within_1km: number; across: number; near_share: number } | null;
}

// Odds are natural logarithms of what records add to the odds of A against B.
export interface Odds {
  a: Place;
  b: Place;
  total: number;
  from: number;
  done: number;
  time_ms: number[];
  learned: Column; // by the records up to then
  later: Column; // by all records
  spent: number[];
}

// Habit is what all records tell under some settings.
export interface Habit {
  moment: number | null; // null: nothing but Σε bounds it
  homes: { nights: number; median_m: number; posterior: number; releases: number }[];
}

export interface Span {
  start_ms: number;
  end_ms: number;
  vehicles: number;
}

export interface CrowdSpan extends Span {
  counted_off: number | null;
  fitted_off: number | null; // null: nothing is estimated
  blind_off: number | null;
}

export interface Crowds {
  settings: Settings;
  simulated: boolean;
  vehicles: number;
  windows: CrowdSpan[];
  spent: number | null;
  per_day: number;
  half_width: number;
  no_estimate: string;
}

export interface Crowd extends CrowdSpan {
  zone_km: number;
  counted: Field;
  fitted: Field;
  blind: Field;
  truth: Field;
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

// knobs are the parameters that say the settings.
export function knobs(s: Settings): Record<string, string | number> {
  return { ...s };
}

// bytes decodes base64.
export function bytes(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}
