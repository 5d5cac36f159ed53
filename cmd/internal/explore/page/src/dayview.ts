// One vehicle's day: where it was, what its records said then, and what they say afterwards.

import { Column, Course, MapInfo, Past, Settings } from "./api";
import { draw, ticks } from "./chart";
import { named } from "./knobs";
import { distance, fact, make, metres, sum, tall } from "./look";
import { Camera, MapView, Pen, place } from "./map";
import { Latest, State } from "./state";
import { legend, pauseOf, seen, zoomer } from "./stepview";

// Day is what is known of a vehicle under some settings.
interface Day { settings: Settings; map: MapInfo; course: Course; past: Past }

// offs is how far places are from the truth, km.
function offs(c: Course, x: Column, y: Column): Column {
  return x.map((_, i) => {
    const p = place(x, y, i);
    return p ? distance(p, { x: c.truth_x[i]!, y: c.truth_y[i]! }) : null;
  });
}

function median(values: Column): number | null {
  const known = values.filter((v): v is number => v !== null && v !== undefined).sort((a, b) => a - b);
  const n = known.length;
  return n === 0 ? null : (known[(n - 1) >> 1]! + known[n >> 1]!) / 2;
}

// gain says what later records change.
function gain(when: string, later: number | null | undefined, then: number | null | undefined): string {
  if (typeof later !== "number" || typeof then !== "number") return "";
  const [now, before] = [metres(later), metres(then)];
  return ` ${when} ${now === before ? `change nothing: ${now} off` : `${later < then ? "tell more" : "mislead"}: ${now} off instead of ${before}`}.`;
}

// DayView is the view of a day.
export class DayView {
  readonly element: HTMLElement;
  readonly beside = make("div"); // below the knobs
  readonly map: MapView;
  readonly maps: MapView[];
  private days: Day[] = [];
  private readonly latest = new Latest(() => this.element);
  readonly facts = make("dl", { class: "facts", id: "day-facts" });
  private readonly error = make("div");
  private readonly cost = make("div");
  private readonly under = make("div");
  private readonly says = make("p", { class: "soft small after", id: "day-caption", "aria-live": "polite" });

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const canvas = make("canvas", { role: "img", "aria-describedby": "day-caption", "aria-label": "Map of the day" });
    this.map = seen(state, new MapView(canvas, camera), () => this.element, () => this.render());
    this.maps = [this.map];
    this.element = make("div", {},
      make("div", { class: "beside" },
        make("div", { class: "picture low" }, canvas, zoomer(this.map), ...this.map.splitter()),
        make("div", { class: "text stack" }, this.error, this.cost, this.says, this.under)));
  }

  update(): void {
    const fetch = async (s: Settings, signal: AbortSignal): Promise<Day> => {
      const [map, course, past] = await Promise.all([this.state.map(signal), this.state.course(s), this.state.past(s)]);
      return { settings: { ...s }, map, course, past };
    };
    void this.latest.run(
      (signal) => Promise.all(this.state.halves.map((s) => fetch(s, signal))),
      (days) => {
        this.days = days;
        this.render();
      }, this.failed);
  }

  // paint draws the ways of the day up to now, and where all three are.
  private paint(pen: Pen, { course: c, past }: Day): void {
    const now = this.state.fix;
    const times = c.time_ms.slice(0, now + 1);
    pen.way(c.estimate_x, c.estimate_y, times, pauseOf(pen.map), "estimate", 1.2, 0.6);
    pen.way(past.x, past.y, times, pauseOf(pen.map), "release", 2.2, 0.9);
    if (this.state.truth) pen.way(c.truth_x, c.truth_y, times, pauseOf(pen.map), "truth", 2.4, 1);
    const [told, back] = [place(c.estimate_x, c.estimate_y, now), place(past.x, past.y, now)];
    if (told) pen.mark(told, "cross", "estimate", 8);
    if (back) pen.mark(back, "diamond", "release", 7);
    if (this.state.truth) pen.mark({ x: c.truth_x[now]!, y: c.truth_y[now]! }, "disc", "truth", 7, c.user, "below");
  }

  private render(): void {
    const [day] = this.days;
    if (!day) return;
    const [now, { course }, { truth }] = [this.state.fix, day, this.state];
    this.map.show(day.map, ...this.days.map((d) => ({ name: named(d.settings), scene: (pen: Pen) => this.paint(pen, d) })));
    const told = this.days.map((d) => offs(d.course, d.course.estimate_x, d.course.estimate_y));
    const blind = offs(course, course.blind_x, course.blind_y);
    const back = this.days.map((d) => d.past.off_km);
    const each = (of: (d: Day, i: number) => string) => this.days.map(of).join(" | ");
    // A budget is for 24 hours, and a trace may be longer.
    const limited = this.days.some((d) => d.settings.budget);
    const spent = this.days.map((d) => (limited ? d.course.spent_24h : d.course.spent));
    const most = spent.map((s) => s.reduce((m, x) => Math.max(m, x), 0));
    const costs = (of: (i: number) => number) => each((d, i) => `${sum(of(i))}${d.settings.budget ? ` of ${d.settings.budget}` : ""}`);
    const off = (...all: HTMLElement[]) => (truth ? all : []);
    this.facts.replaceChildren(
      ...off(fact("Off now", each((_, i) => metres(told[i]![now])), "distance from the truth to the guess that a reader had at this time"),
      fact("Smoothed, now", each((_, i) => metres(back[i]![now])), "distance from the truth to the smoothed guess about this time")),
      fact(limited ? "Σε in 24 hours" : "Σε so far", costs((i) => spent[i]![now] ?? 0),
        limited ? "the sum of ε of the releases that count in a budget of 24 hours, and that budget" : "the sum of ε of the releases up to now"),
      ...off(fact("Trace: median", each((_, i) => metres(median(told[i]!))), "of the guess at the time"),
      fact("Trace: smoothed", each((_, i) => metres(median(back[i]!))), "of the smoothed guess, as geodither smooth gives it"),
      fact("Model alone", metres(median(blind)), "without any record")));
    const done = Math.min(...this.days.map((d) => d.past.time_ms.length));
    this.says.textContent = done < course.total ? `Computed so far: ${done.toLocaleString("en")} of ${course.total.toLocaleString("en")} reports.`
      : `Anybody can smooth the records, which costs no ε.` + (!truth ? "" : gain("At this moment later records", back[0]![now], told[0]![now]) +
        gain("Over the trace, in the median, they", median(back[0]!), median(told[0]!)));
    this.under.replaceChildren(legend([
      ...(truth ? [{ sign: "line" as const, colour: "truth", text: "where it was", secret: true }] : []),
      { sign: "line", colour: "estimate", text: "guess at the time" },
      { sign: "line", colour: "release", text: "smoothed guess" },
      ...(truth ? [{ sign: "dashes" as const, colour: "blind", text: "model alone" }] : []),
    ]));
    const spans = { times: course.time_ms, pause: pauseOf(day.map), now, low: 0, width: Math.max(280, this.cost.clientWidth || 430), height: tall(2),
      onPick: (i: number) => {
        this.state.fix = i;
        this.state.changed();
      } };
    const lines = [
      { values: blind, colour: "blind", dash: "2 4" },
      ...told.map((values, i) => ({ values, colour: "estimate", dash: i ? "6 4" : "" })),
      ...back.map((values, i) => ({ values, colour: "release", dash: i ? "6 4" : "" })),
    ];
    const high = lines.reduce((h, l) => l.values.reduce<number>((m, v) => Math.max(m, v ?? 0), h), 0.5);
    this.error.hidden = !truth;
    this.error.replaceChildren(make("h2", {}, "How far off the guess is"), draw({ ...spans,
      label: "Distance from the truth to the guess over the day: at the time, with later records, and without any",
      series: lines, high, ticks: ticks(0, high, 4), tick: (y) => `${sum(y)} km` }));
    const says = limited ? `Σε in 24 hours: at most ${costs((i) => most[i]!)}` : "Σε so far, without a budget";
    const top = 1.06 * Math.max(1, ...most, ...this.days.map((d) => d.settings.budget));
    this.cost.replaceChildren(make("h2", {}, says), draw({ ...spans, label: says,
      series: [...spent.map((values, i) => ({ values, colour: "accent", dash: i ? "6 4" : "" })),
        ...this.days.map((d, i) => ({ values: course.time_ms.map(() => d.settings.budget || null), colour: "truth", dash: i ? "3 5" : "8 4" }))],
      high: top, ticks: ticks(0, top, 4), tick: sum }));
  }
}
