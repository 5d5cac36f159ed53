// Two settings side by side: the same fixes, the same moment.

import { Course, Settings, Summary } from "./api";
import { draw, ticks } from "./chart";
import { panel } from "./knobs";
import { distance, likelier, make, percent, rich, sum, times } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { legend, Look, lookAt, paint, pauseOf, zoomer } from "./stepview";
import { mechanisms } from "./words";

// name says settings in a few words.
function name(s: Settings): string {
  const rest = s.mechanism === "codebook" ? "" : `, δ = ${s.delta}`;
  const near = s.near_factor ? `, near factor ${s.near_factor}` : "";
  const pause = s.interval > 1 ? `, every ${s.interval} steps` : "";
  return `${(mechanisms[s.mechanism] ?? s.mechanism).replace(/ \(.*/, "")}, ε = ${sum(s.epsilon)}${rest}${near}${pause}`;
}

interface Row {
  name: string;
  title: string;
  of: (c: Course) => number | null;
  say: (x: number) => string;
  key?: boolean;
  less?: boolean; // less is better
}

const metresOf = (x: number) => (x >= 1000 ? `${(x / 1000).toFixed(2)} km` : `${Math.round(x)} m`);
const from = (of: (s: Summary) => number | null) => (c: Course) => of(c.summary);

const rows: Row[] = [
  { name: "Guess: median error", title: "distance from the truth to the best guess, over all records",
    of: from((s) => s.estimate_m.median), say: metresOf, key: true, less: true },
  { name: "Guess: rms error", title: "the root of the mean square, which large errors dominate",
    of: from((s) => s.estimate_m.rms), say: metresOf, less: true },
  { name: "Draw: median error", title: "distance from the truth to the published draw",
    of: from((s) => s.release_m.median), say: metresOf, less: true },
  { name: "Without any release: median error", title: "what the model alone gives away",
    of: from((s) => s.blind_m.median), say: metresOf },
  { name: "One release: odds change at most by", title: "e^ε",
    of: (c) => Math.exp(c.settings.epsilon), say: (x) => `× ${times(x)}`, key: true, less: true },
  { name: "… so 50 : 50 becomes at most", title: "for somebody who thought two places equally likely",
    of: (c) => likelier(c.settings.epsilon), say: (x) => `${percent(x)} : ${percent(1 - x)}` },
  { name: "Spent over the trace, Σε", title: "the sum of ε of all releases",
    of: from((s) => s.spent), say: sum, key: true, less: true },
  { name: "Releases", title: "draws that cost ε", of: from((s) => s.releases), say: String },
  { name: "Neighbouring cells told apart", title: "the share of ε that a release spends between two neighbouring cells, on average",
    of: from((s) => s.near_share_mean), say: percent, less: true },
  { name: "… in ε for each release", title: "that share times ε",
    of: (c) => (c.summary.near_share_mean === null ? null : c.summary.near_share_mean * c.settings.epsilon),
    say: (x) => sum(x), less: true },
  { name: "Cells of the location set, mean", title: "|ΔX|; under codebook only a measure of how wide the expectation is",
    of: from((s) => s.location_set_mean), say: (x) => x.toFixed(0) },
  { name: "True cell outside the set", title: "drift",
    of: from((s) => s.drift_ratio), say: percent },
];

function errors(c: Course): (number | null)[] {
  return c.estimate_x.map((x, i) => x === null ? null :
    distance({ x, y: c.estimate_y[i]! }, { x: c.truth_x[i]!, y: c.truth_y[i]! }));
}

function blindErrors(c: Course): (number | null)[] {
  return c.blind_x.map((x, i) => x === null ? null :
    distance({ x, y: c.blind_y[i]! }, { x: c.truth_x[i]!, y: c.truth_y[i]! }));
}

// CompareView is the view of two settings.
export class CompareView {
  readonly element: HTMLElement;
  readonly maps: MapView[];
  private readonly latest = new Latest();
  private readonly titles = [make("div", { class: "corner" }), make("div", { class: "corner" })];
  private readonly captions = [make("figcaption"), make("figcaption")];
  private readonly table = make("div", { class: "wide" });
  private readonly chart = make("figure");
  private readonly far = make("p", { class: "small soft" });
  private looks: Look[] = [];

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const figures: HTMLElement[] = [];
    this.maps = ["A", "B"].map((letter, i) => {
      const canvas = make("canvas", { role: "img", "aria-label": `Map under settings ${letter}` });
      const view = new MapView(canvas, camera);
      figures.push(make("figure", {},
        make("div", { class: "picture low" }, canvas, this.titles[i]!, i === 1 ? zoomer(view) : null),
        this.captions[i]!));
      return view;
    });
    const knobs = make("div", { class: "two" });
    for (const map of this.maps) {
      map.closer = (view) => {
        state.view = view;
        state.changed();
      };
    }
    let next = 0;
    state.grows(() => {
      if (this.looks.length === 0 || this.element.hidden || next) return;
      next = requestAnimationFrame(() => {
        next = 0;
        this.tabulate();
      });
    });
    const lay = () => knobs.replaceChildren(
      panel("Settings A", "left", state.about, state.settings, () => state.changed()),
      panel("Settings B", "right", state.about, state.other, () => state.changed()));
    lay();
    this.relay = lay;
    this.element = make("div", { class: "stack" },
      make("div", { class: "two" }, ...figures),
      knobs,
      legend([
        { sign: "disc", colour: "truth", text: "the truth", secret: true },
        { sign: "fill", colour: "posterior", text: "where an observer thinks it is" },
        { sign: "cross", colour: "estimate", text: "best guess" },
        { sign: "circle", colour: "estimate", text: "95 % of the belief" },
        { sign: "square", colour: "blind", text: "guess without any release" },
      ]),
      make("section", { class: "card", "aria-label": "Both settings in numbers" },
        make("h2", {}, "Over the whole trace"), this.far, this.table),
      make("section", { class: "card", "aria-label": "Error over time" }, this.chart));
  }

  // relay lays the knobs again, since the other view may have turned them.
  readonly relay: () => void;

  async update(): Promise<void> {
    this.element.classList.add("busy");
    const done = await this.latest.run(
      (signal) => Promise.all([lookAt(this.state, this.state.settings, signal), lookAt(this.state, this.state.other, signal)]),
      (looks) => this.render(looks),
      this.failed,
    );
    if (done) this.element.classList.remove("busy");
  }

  private render(looks: Look[]): void {
    looks.forEach((look, i) => {
      this.titles[i]!.textContent = `${"AB"[i]}: ${name(look.course.settings)}`;
      this.maps[i]!.show(look.map, (pen) => paint(pen, look, 0, { truth: true, blind: true }));
      const { step } = look;
      this.captions[i]!.replaceChildren(rich(step.estimate
        ? `${"AB"[i]}: the best guess is *${metresOf(1000 * distance(step.estimate, step.truth))}* from the truth, and ` +
          `95 % of the belief lies within *${metresOf(1000 * step.radius_km)}* of it. Spent so far: Σε = ${sum(step.spent)}.`
        : `${"AB"[i]}: nothing is published for this report.`));
    });
    this.looks = looks;
    this.tabulate();
  }

  // tabulate shows the numbers of both courses as far as they are computed.
  private tabulate(): void {
    const [a, b] = [this.looks[0]!.course, this.looks[1]!.course];
    const done = Math.min(a.done, b.done);
    this.far.textContent = done < a.total
      ? `Computed so far: ${a.done.toLocaleString("en")} and ${b.done.toLocaleString("en")} of ${a.total.toLocaleString("en")} reports.`
      : "";
    this.table.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "over the whole trace"),
        make("th", { scope: "col" }, `A: ${name(a.settings)}`), make("th", { scope: "col" }, `B: ${name(b.settings)}`))),
      make("tbody", {}, ...rows.map((row) => {
        const [x, y] = [row.of(a), row.of(b)];
        const cell = (own: number | null, other: number | null) => make("td",
          row.less && own !== null && other !== null && own < other ? { class: "better" } : {},
          own === null ? "–" : row.say(own));
        return make("tr", row.key ? { class: "key" } : {}, make("th", { scope: "row", title: row.title }, row.name), cell(x, y), cell(y, x));
      }))));
    const series = [
      { name: "A", values: errors(a), colour: "estimate" },
      { name: "B", values: errors(b), colour: "release", dash: "6 4" },
      { name: "blind", values: blindErrors(a), colour: "blind", dash: "2 4" },
    ];
    const high = series.reduce((h, s) => s.values.reduce<number>((m, v) => Math.max(m, v ?? 0), h), 0.5);
    this.chart.replaceChildren(
      make("h2", {}, "Error of the best guess over time"),
      draw({
        label: "Distance from the truth to the best guess over time, for both settings and without any release",
        times: a.time_ms, pause: pauseOf(a), series, low: 0, high, ticks: ticks(0, high, 5), tick: (y) => `${sum(y)} km`,
        now: this.state.fix, onPick: (i) => {
          this.state.fix = i;
          this.state.changed();
        },
      }),
      legend([
        { sign: "line", colour: "estimate", text: "A (solid)" },
        { sign: "line", colour: "release", text: "B (dashed)" },
        { sign: "line", colour: "blind", text: "without any release (dotted)" },
      ]),
      make("figcaption", {}, "Where a line is below the dotted one, the records tell more about the place than the public " +
        "model alone. A click on the chart goes to that time."));
  }
}
