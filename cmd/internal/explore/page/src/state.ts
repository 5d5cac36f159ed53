// What the person at the page has chosen, and what was fetched for it.

import { About, Anatomy, ask, Course, MapInfo, Past, Rows, Settings, Users, Usual } from "./api";

// multiples are the ε of the small pictures, times the chosen one.
const multiples = [0.25, 0.5, 1, 2];

const morning = 8; // o'clock

// most is how many reports of a vehicle the page keeps.
export const most = 200_000;

// Fetched is a question that was asked, and how many wait for its answer.
interface Fetched { answer: Promise<unknown>; stop: AbortController; waiting: number; done: boolean }

// Growing is an answer of which the server computes more and more while somebody looks at it.
class Growing<T extends Rows> {
  value: T | null = null;
  pulling = false;
  waiting: { fix: number; resolve: (value: T) => void; reject: (error: unknown) => void }[] = [];

  constructor(
    readonly question: string,
    readonly parameters: Record<string, string | number>,
    readonly wanted: () => boolean,
  ) {}

  get rows(): number {
    return this.value?.time_ms?.length ?? 0;
  }

  get whole(): boolean {
    return this.value !== null && this.rows >= Math.min(most, this.value.total);
  }

  // add adds what the server has computed since.
  add(more: T): void {
    const kept = this.value;
    if (!kept) {
      this.value = more;
      return;
    }
    const columns = kept as unknown as Record<string, unknown[]>;
    for (const [name, value] of Object.entries(more)) {
      if (!Array.isArray(value)) columns[name] = value as never;
      else for (const x of value) (columns[name] ??= []).push(x); // null: no row had come
    }
    kept.from = 0;
  }

  settle(): void {
    const value = this.value;
    if (!value) return;
    const ready = this.waiting.filter((w) => w.fix < this.rows || this.whole);
    this.waiting = this.waiting.filter((w) => !ready.includes(w));
    for (const w of ready) w.resolve(value);
  }

  // reach returns the answer as soon as it has a fix.
  reach(fix: number, grew: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ fix, resolve, reject });
      this.settle();
      void this.pull(grew);
    });
  }

  private async pull(grew: () => void): Promise<void> {
    if (this.pulling) return;
    this.pulling = true;
    try {
      while (!this.whole && (this.wanted() || !this.value)) {
        this.add(await ask<T>(this.question, { ...this.parameters, from: this.rows, within_ms: 250 }));
        this.settle();
        grew();
      }
      this.settle();
    } catch (error) {
      for (const w of this.waiting.splice(0)) w.reject(error);
    }
    this.pulling = false;
  }
}

// State is shared by the views of the secret side.
export class State {
  user = "";
  fix = 0;
  settings: Settings;
  other: Settings; // of the other half of a picture that is split
  period = 1; // ε for all that a vehicle does on the days of a fleet
  slot = morning;
  shows = 1; // pictures: 2 are the halves of one, 4 stand beside each other
  truth = true; // is shown
  turnB = false; // the knobs turn the other settings
  private readonly otherBegins: Settings; // what it is at the start
  reports = 1; // of the user
  view = ""; // the part of a large map that is looked at closely, as the server takes it
  readonly watchers = new Set<() => void>(); // of what is chosen
  readonly growers = new Set<() => void>(); // of courses, of which more has come
  private readonly answers = new Map<string, Fetched>();
  private readonly courses = new Map<string, Growing<Course>>();
  private readonly pasts = new Map<string, Growing<Past>>();

  constructor(readonly about: About) {
    about.defaults = { ...about.defaults, lag: 40 };
    this.otherBegins = { ...about.defaults, mechanism: "lattice" };
    this.settings = { ...about.defaults };
    this.other = { ...this.otherBegins };
  }

  // turned are the settings that the knobs turn.
  get turned(): Settings {
    return this.shows === 2 && this.turnB ? this.other : this.settings;
  }

  // halves are the settings of a picture, or of its halves.
  get halves(): Settings[] {
    return this.shows === 2 ? [this.settings, this.other] : [this.settings];
  }

  // four are the settings of the small pictures, if they are shown.
  get four(): Settings[] {
    return this.shows === 4 ? multiples.map((x) => ({ ...this.settings, epsilon: x * this.settings.epsilon })) : [];
  }

  // times are the report and the time of the day, for the address.
  get times(): string {
    return `${this.slot === morning ? "" : `&slot=${this.slot}`}&fix=${this.fix}`;
  }

  // told are the settings that differ from those of the start, for the address.
  told(): Record<string, string> {
    const all: Record<string, string> = {};
    const add = (prefix: string, s: Settings, start: Settings) => {
      for (const [name, value] of Object.entries(s)) {
        if (value !== start[name as keyof Settings]) all[prefix + name] = String(value);
      }
    };
    add("", this.settings, this.about.defaults);
    add("b.", this.other, this.otherBegins);
    if (this.period !== 1) all["period"] = String(this.period);
    if (!this.truth) all["truth"] = "0";
    if (this.shows > 1) all["shows"] = String(this.shows);
    return all;
  }

  // tell takes the settings of an address. The server says what is wrong with them.
  tell(address: URLSearchParams): void {
    const take = (prefix: string, s: Settings, start: Settings) => {
      for (const [name, begins] of Object.entries(start)) {
        const value = address.get(prefix + name);
        const is = value === null ? begins : typeof begins === "number" ? Number(value) : value;
        (s as unknown as Record<string, unknown>)[name] = is;
      }
    };
    take("", this.settings, this.about.defaults);
    take("b.", this.other, this.otherBegins);
    this.shows = [2, 4].find((n) => address.get("shows") === String(n)) ?? 1;
    this.truth = address.get("truth") !== "0";
    const number = (name: string, otherwise: number, fits: (x: number) => boolean) => {
      const x = Number(address.get(name) ?? otherwise);
      return fits(x) ? x : otherwise;
    };
    this.period = number("period", 1, (x) => x > 0);
    this.slot = number("slot", morning, (x) => Number.isInteger(x) && x >= 0 && x < 24);
    this.turnB = this.turnB && this.shows === 2;
  }

  changed(): void {
    for (const watcher of this.watchers) watcher();
  }

  // fetched asks the server once for the same thing, and keeps the last few answers. A question is
  // given up when nobody who asked it waits any more.
  private fetched<T>(question: string, parameters: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const key = question + JSON.stringify(parameters);
    const one = this.answers.get(key) ?? this.begun<T>(key, question, parameters);
    one.waiting++;
    signal?.addEventListener("abort", () => {
      if (--one.waiting > 0 || one.done) return;
      if (this.answers.get(key) === one) this.answers.delete(key);
      one.stop.abort();
    });
    return one.answer as Promise<T>;
  }

  private begun<T>(key: string, question: string, parameters: Record<string, string | number>): Fetched {
    const stop = new AbortController();
    const one: Fetched = { answer: ask<T>(question, parameters, stop.signal), stop, waiting: 0, done: false };
    this.answers.set(key, one);
    one.answer.then(() => (one.done = true), () => {
      if (this.answers.get(key) === one) this.answers.delete(key);
    });
    if (this.answers.size > 60) this.answers.delete(this.answers.keys().next().value!);
    return one;
  }

  private seen(): Record<string, string> {
    return this.view ? { view: this.view } : {};
  }

  map(signal: AbortSignal): Promise<MapInfo> {
    return this.fetched("map", this.seen(), signal);
  }

  step(s: Settings, fix: number, signal: AbortSignal): Promise<Anatomy> {
    return this.fetched("step", { user: this.user, fix, ...s, ...this.seen() }, signal);
  }

  private grown<T extends Rows>(
    kept: Map<string, Growing<T>>, key: string, number: number, make: () => Growing<T>,
  ): Growing<T> {
    let g = kept.get(key);
    if (!g) {
      g = make();
      kept.set(key, g);
      if (kept.size > number) kept.delete(kept.keys().next().value!);
    }
    return g;
  }

  private readonly grew = () => {
    for (const grower of this.growers) grower();
  };

  private looksAt(user: string, s: string): boolean {
    return user === this.user && [this.settings, this.other, ...this.four].some((one) => s === JSON.stringify(one));
  }

  // course returns the course as soon as it has a fix. More of it comes while it is looked at.
  course(s: Settings, fix = this.fix): Promise<Course> {
    return this.rows("course", this.courses, s, fix);
  }

  // others returns the courses of all the sample's vehicles. Other fleets are too large for a picture.
  async others(s: Settings): Promise<Course[]> {
    if (!this.about.sample) return [];
    const { names } = await this.findUsers("");
    return Promise.all(names.map((user) => this.fetched<Course>("course", { user, ...s, lag: 1 })));
  }

  // peek returns as much of a course, and of its past, as has come.
  peek(s: Settings): { course: Course | null; past: Past | null } {
    const key = JSON.stringify([this.user, s]);
    return { course: this.courses.get(key)?.value ?? null, past: this.pasts.get(key)?.value ?? null };
  }

  // past returns what later records tell, as soon as it has the fix.
  past(s: Settings): Promise<Past> {
    return this.rows("past", this.pasts, s, this.fix);
  }

  private rows<T extends Rows>(question: string, kept: Map<string, Growing<T>>, s: Settings, fix: number): Promise<T> {
    const [user, own] = [this.user, JSON.stringify(s)];
    return this.grown(kept, JSON.stringify([user, s]), 8, () =>
      new Growing<T>(question, { user, ...s }, () => this.looksAt(user, own))).reach(fix, this.grew);
  }

  // usual is where the fleet usually is at a time of the day.
  usual(slot: number, signal: AbortSignal): Promise<Usual> {
    return this.fetched("fleet", { epsilon: this.period, seed: this.turned.seed, slot, truth: this.truth ? 1 : 0 }, signal);
  }

  findUsers(text: string): Promise<Users> {
    return this.fetched<Users>("users", { q: text });
  }

  // choose looks at a user, of whom the number of reports is asked for.
  async choose(user: string): Promise<void> {
    const found = await this.findUsers(user);
    this.user = user;
    this.reports = found.fixes[found.names.indexOf(user)] ?? 1;
    this.fix = Math.min(this.fix, this.reports - 1);
  }
}

// Latest runs jobs of which only the newest counts. What they fill is marked as busy meanwhile.
export class Latest {
  private now: AbortController | null = null;

  constructor(private readonly fills?: () => HTMLElement) {}

  // run runs a job, which has a signal for the moment when it does not count any more.
  async run<T>(
    job: (signal: AbortSignal) => Promise<T>, then: (value: T) => void, failed: (error: unknown) => void,
  ): Promise<void> {
    this.fills?.().classList.add("busy");
    const [before, own] = [this.now, new AbortController()];
    this.now = own;
    const running = job(own.signal);
    before?.abort(); // now that the new job has asked: what both want goes on
    try {
      const value = await running;
      if (own === this.now) then(value);
    } catch (error) {
      if (own === this.now) failed(error);
    }
    if (own === this.now) this.fills?.().classList.remove("busy");
  }
}
