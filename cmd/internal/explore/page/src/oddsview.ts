// What an adversary learns about two places.

import { Course, Odds, Place } from "./api";
import { draw, ticks } from "./chart";
import { clock, likelier, make, percent, rich, sum, times } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { legend, Look, lookAt, paint, pauseOf, zoomer } from "./stepview";

// adversaries says what each one knows beside all records: that much is for it to decide, and the
// guarantee holds against all of them.
const adversaries: Record<string, { name: string; knows: string }> = {
  "standard": { name: "knows the model", knows: "how vehicles move on average, as everybody with the public model does" },
  "strong-start": { name: "knows the start", knows: "the model, and in which cell the trace began" },
  "weak-walk": { name: "guesses a random walk", knows: "no model: takes the vehicle to move to any neighbouring cell" },
  "weak-uniform": { name: "knows nothing", knows: "no model: every place is as likely as any other at each moment" },
};

// OddsView is the view of two places.
export class OddsView {
  readonly element: HTMLElement;
  readonly beside: HTMLElement;
  readonly map: MapView;
  private a: Place | null = null;
  private b: Place | null = null;
  private picking: "a" | "b" = "a";
  private adversary = "standard";
  private shown: { look: Look; all: Odds[] } | null = null;
  private readonly others = make("div", { class: "wide", id: "adversaries" });
  private readonly latest = new Latest();
  private readonly buttons: Record<"a" | "b", HTMLButtonElement>;
  private readonly says = make("div", { class: "says", id: "verdict", "aria-live": "polite" });
  private readonly learned = make("figure");
  private readonly belief = make("figure");
  private readonly note = make("p", { class: "small soft after" });

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const canvas = make("canvas", { role: "img", "aria-label": "Map of two places" });
    this.map = new MapView(canvas, camera);
    this.map.closer = (view) => {
      state.view = view;
      state.changed();
    };
    let next = 0;
    state.grows(() => {
      if (!this.shown || this.element.hidden || next) return;
      next = requestAnimationFrame(() => {
        next = 0;
        this.render();
      });
    });
    this.map.picked = (p) => {
      this[this.picking] = p;
      this.choose(this.picking === "a" ? "b" : "a");
      void this.update();
    };
    const button = (which: "a" | "b", text: string) => {
      const b = make("button", { type: "button", id: `pick-${which}` }, text);
      b.addEventListener("click", () => this.choose(which));
      return b;
    };
    this.buttons = { a: button("a", "Move A, the home"), b: button("b", "Move B, the clinic") };
    this.choose("a");
    this.element =
      make("div", { class: "stack" },
        make("figure", {}, make("div", { class: "picture low pick" }, canvas, zoomer(this.map)),
          make("div", { class: "bar small" }, this.buttons.a, this.buttons.b,
            make("span", { class: "soft" }, "then click on the map, or move it by Shift and the arrow keys")),
          make("section", { class: "card after", "aria-label": "What the records have told" }, this.learned),
          legend([
            { sign: "disc", colour: "truth", text: "the truth", secret: true },
            { sign: "fill", colour: "posterior", text: "where an observer thinks it is" },
            { sign: "diamond", colour: "estimate", text: "place A" },
            { sign: "diamond", colour: "release", text: "place B" },
          ])),
        make("section", { class: "card", "aria-label": "Several adversaries" },
          make("h2", {}, "Who asks?"), this.others, this.note),
        make("section", { class: "card", "aria-label": "What the adversary believes" }, this.belief));
    this.beside = make("section", { class: "card" },
      make("p", { class: "soft small" }, "Somebody sees every published record and asks one question: is the vehicle at A or at B?"),
      this.says);
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
    void this.update();
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

  async update(): Promise<void> {
    this.element.classList.add("busy");
    const fetch = async (signal: AbortSignal) => {
      const look = await lookAt(this.state, this.state.settings, signal);
      this.begin(look);
      const [p, q] = [this.a!, this.b!];
      const wanted = () => this.a === p && this.b === q && !this.element.hidden;
      const all = await Promise.all(this.state.about.adversaries.map((name) => this.state.odds(name, p, q, wanted)));
      return { look, all };
    };
    const done = await this.latest.run(fetch, (shown) => {
      this.shown = shown;
      this.render();
    }, this.failed);
    if (done) this.element.classList.remove("busy");
  }

  private render(): void {
    if (!this.shown) return;
    const { look, all } = this.shown;
    const odds = all.find((o) => o.adversary === this.adversary) ?? all[0]!;
    this.map.show(look.map, (pen) => {
      paint(pen, { ...look, step: { ...look.step, codebook: null, set: null, release: null } }, 0, { truth: true, blind: false, unnamed: true });
      pen.mark(odds.a, "diamond", "estimate", 9, "A");
      pen.mark(odds.b, "diamond", "release", 9, "B");
    });
    this.tell(look.course, odds);
    this.drawLearned(look.course, odds);
    this.drawBelief(look, odds);
    this.compare(all);
  }

  // compare shows the adversaries side by side, and lets one be chosen.
  private compare(all: Odds[]): void {
    const factor = (x: number | null | undefined) => x === null || x === undefined ? "ruled out" :
      Math.abs(x) < 0.05 ? "as before" : `${x > 0 ? "A" : "B"} × ${times(Math.exp(Math.abs(x)))}`;
    const belief = (x: number | null | undefined) => (x === null || x === undefined ? "–" : percent(likelier(x)));
    const fix = this.state.fix;
    const focused = this.others.contains(document.activeElement);
    this.others.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, ...["Somebody who …", "learned so far", "believes in A", "without records", "most ever learned"]
        .map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...all.map((o) => {
        const who = adversaries[o.adversary] ?? { name: o.adversary, knows: "" };
        const pressed = o.adversary === this.adversary;
        const button = make("button", { type: "button", title: who.knows, "aria-pressed": String(pressed), id: `adversary-${o.adversary}` }, who.name);
        button.addEventListener("click", () => {
          this.adversary = o.adversary;
          this.render();
        });
        return make("tr", pressed ? { class: "key" } : {}, make("th", { scope: "row" }, button),
          make("td", {}, factor(o.learned[fix])), make("td", {}, belief(o.posterior[fix])), make("td", {}, belief(o.blind[fix])),
          make("td", {}, o.worst_at < 0 ? "–" : `× ${times(Math.exp(o.worst))}`));
      }))));
    if (focused) document.getElementById(`adversary-${this.adversary}`)?.focus();
    const who = adversaries[this.adversary];
    this.note.textContent = `The charts and the words beside are about somebody who ${who?.name ?? this.adversary}: ${who?.knows ?? ""}. ` +
      "An observer who knows more beforehand may be surer, but what the records add stays within e^Σε for everybody.";
  }

  private tell(course: Course, odds: Odds): void {
    const i = Math.min(this.state.fix, odds.learned.length - 1);
    const learned = odds.learned[i];
    const spent = odds.spent[i] ?? 0;
    const texts = [];
    if (learned === null || learned === undefined) {
      texts.push("At this moment the observer's filter rules one of the two places out: it is too unlikely to be kept.");
    } else {
      const towards = learned >= 0 ? "A" : "B";
      const sure = likelier(Math.abs(learned));
      const told = Math.abs(learned) < 0.05
        ? "The records have told hardly anything about A against B."
        : `The records have made ${towards} *${times(Math.exp(Math.abs(learned)))} times* likelier against the other place than it was ` +
          `without them. Somebody who would think A and B equally likely without them is now *${percent(sure)}* sure of ${towards}.`;
      texts.push(
        `*So far ${spent === 0 ? "nothing was released" : `${sum(spent)} of ε were spent`}.* ${told}`,
        `The guarantee allows a factor of e^Σε = e^${sum(spent)}${spent < 12 ? ` = ${times(Math.exp(spent))}` : ""}. ` +
        (spent > 20
          ? "That is no limit in practice any more. Each single release still keeps its own bound of e^ε. A smaller ε or a longer interval keeps the sum small."
          : "What was learned lies within it."));
    }
    if (odds.worst_at >= 0) {
      texts.push(`The most that was ever learned on this trace is a factor of ${times(Math.exp(odds.worst))}, at report ` +
        `${odds.worst_at + 1} of ${course.total}. The vehicle moves, so what was learned about one moment fades.`);
    }
    this.says.replaceChildren(...texts.map((text) => make("p", {}, rich(text))));
  }

  private pick(): (i: number) => void {
    return (i) => {
      this.state.fix = i;
      this.state.changed();
    };
  }

  private drawLearned(course: Course, odds: Odds): void {
    const high = Math.max(2, 1.5 * odds.worst);
    const crossed = odds.spent.findIndex((b) => b > high);
    this.learned.replaceChildren(
      make("h2", {}, "What the records have told about A against B"),
      draw({
        label: "Logarithm of what the records have added to the odds of A against B, within plus and minus the sum of epsilon",
        times: odds.time_ms, pause: pauseOf(course), width: 880, height: 190, series: [{ values: odds.learned, colour: "estimate" }],
        bound: odds.spent, low: -high, high, ticks: ticks(-high, high, 6),
        tick: (y) => (y === 0 ? "equal" : `${y > 0 ? "A" : "B"} × ${times(Math.exp(Math.abs(y)))}`),
        now: this.state.fix, onPick: this.pick(),
      }),
      legend([
        { sign: "line", colour: "estimate", text: "by which factor the odds have changed" },
        { sign: "line", colour: "posterior", text: `the bound e^Σε, the edge of the shaded band${crossed < 0 ? "" : "; from " +
          clock(odds.time_ms[crossed]!).slice(11, 16) + " on it lies outside this picture"}` },
      ]),
      make("figcaption", {}, "Up speaks for A, down for B. Each release adds ε to the width of the band, which the line never leaves. A click goes to that time."));
  }

  private drawBelief({ map, course }: Look, odds: Odds): void {
    const share = (x: number | null) => (x === null ? null : likelier(x));
    this.belief.replaceChildren(
      make("h2", {}, "Belief in A, if it is one of the two"),
      draw({
        label: "Probability of A against B for this adversary, with and without the records",
        times: odds.time_ms, pause: pauseOf(course),
        series: [
          { values: odds.posterior.map(share), colour: "estimate" },
          { values: odds.blind.map(share), colour: "blind", dash: "2 4" },
        ],
        width: 880, height: 190, low: 0, high: 1, ticks: ticks(0, 1, 4), tick: (y) => `${Math.round(100 * y)} %`,
        now: this.state.fix, onPick: this.pick(),
      }),
      legend([
        { sign: "line", colour: "estimate", text: "with all records" },
        { sign: "line", colour: "blind", text: "without any record (dotted)" },
      ]),
      make("figcaption", {}, `Both places are whole cells of ${Math.round(map.cell_km * 1000)} m. The distance between the two lines is what the records did; ` +
        "the rest is public knowledge about how vehicles move."));
  }
}
