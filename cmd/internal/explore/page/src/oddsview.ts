// What an attacker learns about two places, and about a home.

import { Course, Habit, MapInfo, Odds, Place } from "./api";
import { draw } from "./chart";
import { button, clock, fact, likelier, make, metres, percent, raised, rich, sum, tall } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { legend, Look, lookAt, paint, pauseOf, seen, showAll, zoomer } from "./stepview";

// side says towards which place odds have changed, and by which factor.
const side = (x: number | null | undefined) => x === null || x === undefined ? "–" : Math.abs(x) < 0.05 ? "not at all" : `${x > 0 ? "A" : "B"} × ${raised(Math.abs(x))}`;

// OddsView is the view of two places.
export class OddsView {
  readonly element: HTMLElement;
  readonly beside: HTMLElement;
  readonly facts = make("dl", { class: "facts", id: "odds-facts" });
  readonly map: MapView;
  readonly maps: MapView[];
  private a: Place | null = null;
  private b: Place | null = null;
  private picking: "a" | "b" = "a";
  private shown: { look: Look; odds: Odds } | null = null;
  private habit: Habit | null = null;
  private asked = ""; // the settings of the habit
  private readonly latest = new Latest(() => this.element);
  private readonly habits = new Latest();
  private readonly buttons: Record<"a" | "b", HTMLButtonElement>;
  private readonly says = make("div", { class: "says", id: "verdict", "aria-live": "polite" });
  private readonly learned = make("div");
  private readonly home = make("section", { class: "card", id: "home" });

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const canvas = make("canvas", { role: "img", "aria-label": "Map of two places", "aria-describedby": "verdict" });
    this.map = seen(state, new MapView(canvas, camera), () => this.element, () => this.render());
    this.maps = [this.map];
    this.map.opened = (own) => this.shown && showAll(own, [this.shown.look]);
    this.map.picked = (p) => {
      this[this.picking] = p;
      this.choose(this.picking === "a" ? "b" : "a");
      this.update();
    };
    const mover = (which: "a" | "b", text: string) => button({ id: `pick-${which}` }, text, () => this.choose(which));
    this.buttons = { a: mover("a", "Move A, home"), b: mover("b", "Move B, clinic") };
    this.choose("a");
    this.element = make("div", {},
      make("div", { class: "two" },
        make("div", {}, make("div", { class: "picture low pick" }, canvas, zoomer(this.map)),
          make("div", { class: "bar small after" }, this.buttons.a, this.buttons.b,
            make("span", { class: "soft" }, "by click, or Shift + arrows")),
          legend([
            { sign: "disc", colour: "truth", text: "the truth", secret: true },
            { sign: "fill", colour: "posterior", text: "observer’s belief" },
            { sign: "line", colour: "estimate", text: "by the records up to then" },
            { sign: "line", colour: "release", text: "by later ones too" },
            { sign: "dashes", colour: "estimate", text: "the bound e^Σε so far" },
            { sign: "dashes", colour: "release", text: "the bound e^Σε of all" },
            { sign: "dashes", colour: "truth", text: "the bound of one moment, if any" },
          ])),
        make("div", { class: "stack" }, this.learned, this.home)));
    this.beside = make("section", { class: "card" }, this.says);
    this.element.addEventListener("keydown", (e) => this.key(e));
  }

  // key moves the chosen place by a cell.
  private key(e: KeyboardEvent): void {
    const way = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[e.key];
    const [p, cell] = [this[this.picking], this.shown?.look.map.cell_km];
    if (!e.shiftKey || !way || !p || !cell) return;
    e.preventDefault();
    e.stopPropagation(); // alone, these keys go through the reports
    this[this.picking] = { x: p.x + way[0]! * cell, y: p.y + way[1]! * cell };
    this.update();
  }

  private choose(which: "a" | "b"): void {
    this.picking = which;
    for (const name of ["a", "b"] as const) this.buttons[name].setAttribute("aria-pressed", String(name === which));
  }

  // begin picks two places that a newcomer can ask about: where the vehicle is, and a way off.
  private begin(look: Look): void {
    if (this.a && this.b) return;
    const at = look.step.truth;
    const middle = { x: (look.map.width * look.map.cell_km) / 2, y: (look.map.height * look.map.cell_km) / 2 };
    const far = Math.hypot(middle.x - at.x, middle.y - at.y) || 1;
    const way = Math.min(1.5, far + 0.5) / far;
    this.a ??= at;
    this.b ??= { x: at.x + (middle.x - at.x) * way, y: at.y + (middle.y - at.y) * way };
  }

  update(): void {
    const fetch = async (signal: AbortSignal) => {
      const look = await lookAt(this.state, this.state.settings, signal);
      this.begin(look);
      const [p, q] = [this.a!, this.b!];
      return { look, odds: await this.state.odds(p, q, () => this.a === p && this.b === q && !this.element.hidden) };
    };
    void this.latest.run(fetch, (shown) => {
      this.shown = shown;
      this.render();
    }, this.failed);
    // What is told of a home takes long, and the picture does not wait for it.
    const asked = JSON.stringify({ ...this.state.settings, lag: 1 });
    if (asked === this.asked) return;
    this.asked = asked;
    this.habit = null;
    this.home.replaceChildren(make("p", { class: "soft small" }, "Nights at home are being simulated …"));
    void this.habits.run((signal) => this.state.habit(this.state.settings, signal), (habit) => {
      this.habit = habit;
      this.render();
    }, (e) => this.home.replaceChildren(make("p", { class: "soft small" }, String((e as Error).message))));
  }

  // left gives up what the view still waits for.
  left(): void {
    this.habits.stop();
    if (!this.habit) this.asked = "";
  }

  private render(): void {
    if (!this.shown) return;
    const { look, odds } = this.shown;
    this.map.show(look.map, { name: "", scene: (pen) => {
      paint(pen, { ...look, step: { ...look.step, codebook: null, set: null, release: null } }, 0, { truth: true, unnamed: true });
      pen.mark(odds.a, "diamond", "estimate", 12, "A");
      pen.mark(odds.b, "diamond", "release", 12, "B");
      pen.mark(look.step.truth, "disc", "truth", 5); // a place must not cover it
    } });
    const i = Math.min(this.state.fix, odds.later.length - 1);
    const { habit } = this;
    this.facts.replaceChildren(
      fact("Learned so far", side(odds.learned[i]), "how the odds of A against B have changed by the records up to now"),
      fact("Bound so far", `× ${raised(odds.spent[i] ?? 0)}`, "e^Σε of the releases up to now"),
      fact("Σε so far", sum(odds.spent[i] ?? 0), "the sum of ε of the releases up to now"),
      fact("By all records", side(odds.later[i]), "the same, for somebody who waits for later records"),
      fact("Bound of all", `× ${raised(odds.spent.at(-1) ?? 0)}`, "e^Σε of all releases of the trace"),
      fact("Moment’s bound", !habit ? "…" : habit.moment === null ? "e^Σε alone" : `× ${raised(habit.moment)}`,
        "of what any number of releases tells about one moment, under these settings"));
    if (habit) this.sleep(habit);
    this.tell(look.course, odds, i);
    this.drawLearned(look.map, odds);
  }

  private tell(course: Course, odds: Odds, i: number): void {
    const [then, later, spent, all] = [odds.learned[i], odds.later[i], odds.spent[i] ?? 0, odds.spent.at(-1) ?? 0];
    const texts = [];
    if (then === null || then === undefined || later === null || later === undefined) {
      texts.push("The model rules one of the two places out at this moment: no record is needed for that.");
    } else {
      const sure = (x: number) => `*${percent(likelier(Math.abs(x)))}* sure of ${x >= 0 ? "A" : "B"}`;
      texts.push(`Take somebody to whom A and B were equally likely without any record. *So far ${spent === 0 ? "nothing was released" : `Σε = ${sum(spent)}`}*, ` +
        `and the records up to now make this person ${sure(then)}. An attacker also reads what comes later, and then is ${sure(later)} for this moment.`);
    }
    texts.push(`The guarantee allows a factor of e^Σε = ${raised(spent)} so far and ${raised(all)} by all records` + (all > 20
      ? ", *which is no limit in practice*. A budget, a longer interval or a smaller ε make it one."
      : ": what was learned lies within it."));
    if (this.habit && this.habit.moment !== null) {
      texts.push(`However many records there are, all of them together change the odds about one moment by *${raised(this.habit.moment)}* at most, because the model forgets.`);
    }
    const most = odds.later.reduce<number>((m, x, k) => (Math.abs(x ?? 0) > Math.abs(odds.later[m] ?? 0) ? k : m), 0);
    texts.push(`The most that the records of ${course.user} tell about any moment is ${side(odds.later[most])}, at ${clock(odds.time_ms[most] ?? 0).slice(11, 16)}.`);
    this.says.replaceChildren(...texts.map((text) => make("p", {}, rich(text))));
  }

  private drawLearned(map: MapInfo, odds: Odds): void {
    const bound = odds.spent.at(-1) ?? 0; // of what all records tell
    const moment = this.habit?.moment ?? Infinity;
    const high = 1.1 * Math.max(bound, Math.LN10);
    const marks = [0, 1, 3, 9, 27, 81, 243, 729].flatMap((k) => [k * Math.LN10, -k * Math.LN10]);
    this.learned.replaceChildren(
      make("h2", {}, "What the records say: A or B?"),
      draw({
        label: "Factor by which the records change the odds of A against B over time, by those up to then and by all, each within its bound e^Σε",
        times: odds.time_ms, pause: pauseOf(map), width: 430, height: tall(1) * 0.6, low: -high, high, now: this.state.fix,
        series: [{ values: odds.learned, colour: "estimate" }, { values: odds.later, colour: "release" },
          ...[1, -1].flatMap((sign) => [{ values: odds.spent.map((x) => sign * x), colour: "estimate", dash: "6 4" },
            { values: odds.spent.map(() => sign * bound), colour: "release", dash: "6 4" },
            { values: odds.spent.map(() => (moment < high ? sign * moment : null)), colour: "truth", dash: "8 4" }])],
        bound,
        // The whole bound is in the picture, and small factors are seen too.
        scale: (x) => Math.sign(x) * Math.log1p(Math.abs(x)), ticks: marks,
        tick: (x) => (x === 0 ? "as before" : `${x > 0 ? "A" : "B"} × ${raised(Math.abs(x) + 1e-9)}`),
        onPick: (k) => {
          this.state.fix = k;
          this.state.changed();
        },
      }));
  }

  // off says how far an attacker's guess is off, given in metres.
  private off(m: number | undefined): string {
    const cell = 1000 * (this.shown?.look.map.cell_km ?? 0);
    return m === undefined ? "–" : m < cell / 2 ? "found" : metres(m / 1000);
  }

  // sleep says what releases tell about a home, night after night.
  private sleep(habit: Habit): void {
    const last = habit.homes.at(-1)!;
    const off = this.off(last.median_m);
    this.home.replaceChildren(
      make("h2", {}, "And where is home?"),
      make("p", {}, rich(`After ${last.nights} nights an attacker ${off === "found" ? "*has found the home*" : `guesses the home *${off}* off`}, and gives the ` +
        `true cell *${percent(last.posterior)}*. Four simulated persons report day and night; hours without releases protect a home.`)),
      make("table", { class: "small" },
        make("thead", {}, make("tr", {}, ...["after", "guess is off by", "sure of the very cell"].map((h) => make("th", { scope: "col" }, h)))),
        make("tbody", {}, ...habit.homes.map((h) => make("tr", {},
          make("th", { scope: "row" }, h.nights === 1 ? "1 night" : `${h.nights} nights`),
          make("td", {}, this.off(h.median_m)), make("td", {}, percent(h.posterior)))))));
  }
}
