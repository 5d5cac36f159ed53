// What the person at the page has chosen, and what was fetched for it.

import { About, Anatomy, ask, Course, knobs, MapInfo, Settings, Users } from "./api";

export type Watcher = () => void;

// State is shared by the views of the secret side.
export class State {
  user = "";
  fix = 0;
  settings: Settings;
  other: Settings; // of the second picture of a comparison
  names: Users = { total: 0, names: [], fixes: [] };
  private readonly watchers = new Set<Watcher>();
  private readonly answers = new Map<string, Promise<unknown>>();

  constructor(readonly about: About) {
    this.settings = { ...about.defaults };
    this.other = { ...about.defaults, mechanism: "lattice" };
  }

  watch(watcher: Watcher): void {
    this.watchers.add(watcher);
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
    if (this.answers.size > 40) this.answers.delete(this.answers.keys().next().value!);
    return answer;
  }

  map(s: Settings): Promise<MapInfo> {
    return this.fetched("map", { cell_m: s.cell_m });
  }

  course(s: Settings): Promise<Course> {
    return this.fetched("course", { user: this.user, ...knobs(s) });
  }

  step(s: Settings, fix = this.fix): Promise<Anatomy> {
    return this.fetched("step", { user: this.user, fix, ...knobs(s) });
  }

  async findUsers(text: string): Promise<void> {
    this.names = await ask<Users>("users", { q: text });
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
