// What the person at the page has chosen, and what was fetched for it.

import { About, Anatomy, ask, Course, knobs, MapInfo, Settings, Users } from "./api";

export type Watcher = () => void;

// most is how many reports of a vehicle the page keeps.
export const most = 200_000;

// Growing is a course of which the server computes more and more while somebody looks at it.
class Growing {
  course: Course | null = null;
  pulling = false;
  waiting: { fix: number; resolve: (c: Course) => void; reject: (error: unknown) => void }[] = [];

  constructor(readonly user: string, readonly settings: Settings) {}

  get rows(): number {
    return this.course?.kind.length ?? 0;
  }

  get whole(): boolean {
    return this.course !== null && this.rows >= Math.min(most, this.course.total);
  }

  // add adds what the server has computed since.
  add(more: Course): void {
    const kept = this.course;
    if (!kept) {
      this.course = more;
      return;
    }
    const columns = kept as unknown as Record<string, unknown[]>;
    for (const [name, value] of Object.entries(more)) {
      if (!Array.isArray(value)) columns[name] = value as never;
      else for (const x of value) columns[name]!.push(x);
    }
    kept.from = 0;
  }

  settle(): void {
    const course = this.course;
    if (!course) return;
    const ready = this.waiting.filter((w) => w.fix < this.rows || this.whole);
    this.waiting = this.waiting.filter((w) => !ready.includes(w));
    for (const w of ready) w.resolve(course);
  }
}

// State is shared by the views of the secret side.
export class State {
  user = "";
  fix = 0;
  settings: Settings;
  other: Settings; // of the second picture of a comparison
  reports = 1; // of the user
  view = ""; // the part of a large map that is looked at closely, as the server takes it
  private readonly watchers = new Set<Watcher>();
  private readonly growers = new Set<Watcher>();
  private readonly answers = new Map<string, Promise<unknown>>();
  private readonly courses = new Map<string, Growing>();

  constructor(readonly about: About) {
    this.settings = { ...about.defaults };
    this.other = { ...about.defaults, mechanism: "lattice" };
  }

  watch(watcher: Watcher): void {
    this.watchers.add(watcher);
  }

  // grows calls a watcher when more of a course has come.
  grows(watcher: Watcher): void {
    this.growers.add(watcher);
  }

  changed(): void {
    for (const watcher of this.watchers) watcher();
  }

  // fetched asks the server once for the same thing, and keeps the last few answers.
  private fetched<T>(question: string, parameters: Record<string, string | number>): Promise<T> {
    const key = question + JSON.stringify(parameters);
    const kept = this.answers.get(key);
    if (kept) return kept as Promise<T>;
    const answer = ask<T>(question, parameters);
    this.answers.set(key, answer);
    answer.catch(() => this.answers.delete(key));
    if (this.answers.size > 24) this.answers.delete(this.answers.keys().next().value!);
    return answer;
  }

  private seen(): Record<string, string> {
    return this.view ? { view: this.view } : {};
  }

  map(s: Settings): Promise<MapInfo> {
    return this.fetched("map", { cell_m: s.cell_m, ...this.seen() });
  }

  step(s: Settings, fix = this.fix): Promise<Anatomy> {
    return this.fetched("step", { user: this.user, fix, ...knobs(s), ...this.seen() });
  }

  // course returns the course as soon as it has a fix. More of it comes while it is looked at.
  course(s: Settings, fix = this.fix): Promise<Course> {
    const key = JSON.stringify([this.user, s]);
    let g = this.courses.get(key);
    if (!g) {
      g = new Growing(this.user, { ...s });
      this.courses.set(key, g);
      if (this.courses.size > 8) this.courses.delete(this.courses.keys().next().value!);
    }
    const grown = g;
    return new Promise((resolve, reject) => {
      grown.waiting.push({ fix, resolve, reject });
      grown.settle();
      void this.pull(grown);
    });
  }

  // peek returns as much of a course as has come.
  peek(s: Settings): Course | null {
    return this.courses.get(JSON.stringify([this.user, s]))?.course ?? null;
  }

  private wanted(g: Growing): boolean {
    const own = JSON.stringify(g.settings);
    return g.user === this.user && (own === JSON.stringify(this.settings) || own === JSON.stringify(this.other));
  }

  private async pull(g: Growing): Promise<void> {
    if (g.pulling) return;
    g.pulling = true;
    try {
      while (!g.whole && (this.wanted(g) || !g.course)) {
        g.add(await ask<Course>("course", { user: g.user, ...knobs(g.settings), from: g.rows, within_ms: 250 }));
        g.settle();
        for (const grower of this.growers) grower();
      }
      g.settle();
    } catch (error) {
      for (const w of g.waiting.splice(0)) w.reject(error);
    }
    g.pulling = false;
  }

  findUsers(text: string, from = 0): Promise<Users> {
    return this.fetched<Users>("users", { q: text, from });
  }

  // choose looks at a user, of whom the number of reports is asked for.
  async choose(user: string): Promise<void> {
    const found = await this.findUsers(user);
    this.user = user;
    this.reports = found.fixes[found.names.indexOf(user)] ?? 1;
    this.fix = Math.min(this.fix, this.reports - 1);
  }
}

// Latest runs jobs of which only the newest counts.
export class Latest {
  private number = 0;

  async run<T>(job: Promise<T>, then: (value: T) => void, failed: (error: unknown) => void): Promise<void> {
    const own = ++this.number;
    try {
      const value = await job;
      if (own === this.number) then(value);
    } catch (error) {
      if (own === this.number) failed(error);
    }
  }
}
