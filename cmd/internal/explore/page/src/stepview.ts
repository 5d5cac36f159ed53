// One step, taken apart.

import { Anatomy, Blocks, bytes, Course, MapInfo, Settings, Summary } from "./api";
import { named } from "./knobs";
import { button, distance, fact, make, metres, percent, rich, sum } from "./look";
import { borders, Camera, MapView, Pen, region, Sign, sketch } from "./map";
import { CanvasSurface, Shape } from "./surface";
import { Latest, State } from "./state";
import { meaning, Part, parts, toWhom } from "./words";

export interface Look {
  map: MapInfo;
  course: Course;
  step: Anatomy;
  // origin is the release that a repeat gives again, and else the step itself.
  origin: Anatomy;
  others: Course[]; // of the sample's other vehicles
}

// originOf is the number of the fix whose release a fix repeats, and else the fix itself.
export function originOf(course: Course, fix: number): number {
  let i = fix;
  if (course.kind[fix] === "repeated") while (i > 0 && course.kind[i] !== "released") i--;
  return course.kind[i] === "released" ? i : fix;
}

// pauseOf is how long a vehicle may say nothing, ms, before its way counts as broken off.
export function pauseOf(map: MapInfo): number {
  return 6000 * map.step_s;
}

export interface Sketch { at: Blocks; border: Shape; own: Shape; drawn: Shape }

const sketches = new WeakMap<Anatomy, Sketch>();

function sketchOf(a: Anatomy): Sketch | null {
  if (!a.codebook) return null;
  let s = sketches.get(a);
  if (!s) {
    const { width, height, data } = a.codebook.votes;
    const votes = bytes(data);
    s = {
      at: a.codebook.votes,
      border: borders(width, height, votes),
      own: region(width, height, votes, a.codebook.own),
      drawn: region(width, height, votes, a.codebook.drawn),
    };
    sketches.set(a, s);
  }
  return s;
}

// Shown says whether the truth is drawn, and whether words stand beside what is drawn.
interface Shown { truth: boolean; unnamed?: boolean }

// paint draws a part of a step: 0 is all at once, the others follow words.parts.
export function paint(pen: Pen, { course, step, origin, others }: Look, part: number, shown: Shown): void {
  const a = part >= 1 && part <= 4 ? origin : step;
  const i = a.number;
  const s = sketchOf(a);
  const book = a.codebook;
  if (part === 1 || part === 2 || part === 3) pen.field(a.prior, "prior", "root", part === 1 ? 1 : 0.55);
  if (part === 4) pen.field(a.likelihood, "likelihood", "plain", 0.75);
  if (part === 0 || part === 5) pen.field(a.posterior, "posterior", "root", 1);
  if (s && book && (part === 2 || part === 3 || part === 4)) {
    if (part === 2 && shown.truth) pen.blocks(s.own, s.at, { fill: "truth", filled: 0.16 });
    if (part === 3) pen.blocks(s.drawn, s.at, { fill: "release", filled: 0.22 });
    pen.blocks(s.border, s.at, { stroke: "border", width: 1.6 });
  }
  if (part === 0 && !shown.unnamed) crowd(pen, course, step.time_ms, others, shown);
  if (a.set && part >= 2 && part <= 4) {
    if (part === 2) pen.field(a.set.cells, "border", "plain", 0.35);
    pen.line(a.set.hull, "border", 2, { close: true });
    if (part === 3 && shown.truth) {
      const at = a.set.surrogate;
      pen.line(a.set.body.map((v) => ({ x: at.x + v.x, y: at.y + v.y })), "release", 1.4,
        { close: true, dash: [5, 4], filled: 0.07 });
    }
  }
  if (shown.truth) {
    const [x, y, times] = [course.truth_x, course.truth_y, course.time_ms].map((all) => all.slice(Math.max(0, i - 14), i + 1));
    pen.way(x!, y!, times!, pauseOf(pen.map), "paper", 5, 0.8);
    pen.way(x!, y!, times!, pauseOf(pen.map), "truth", 2.4, 1);
  }
  if (book && (part === 2 || part === 3 || part === 4)) {
    for (const [j, p] of book.points.entries()) {
      const drawn = j === book.drawn && part > 2;
      pen.mark(p, drawn ? "diamond" : "dot", drawn ? "release" : "border", drawn ? 10 : 9,
        part === 2 ? percent(p.prior) : "", "above");
    }
  }
  if (a.set && part === 2 && a.set.drift && shown.truth) {
    pen.line([a.truth, a.set.surrogate], "truth", 1.5, { dash: [4, 4] });
    pen.mark(a.set.surrogate, "star", "truth", 8);
  }
  if (a.set && part === 3 && a.release && shown.truth) {
    pen.line([a.set.surrogate, a.release], "release", 1.8, { dash: [4, 4] });
  }
  if (a.release && a.set && (part === 0 || part === 3 || part === 4)) {
    pen.mark(a.release, "diamond", "release", 8);
  }
  if (a.estimate && (part === 0 || part === 5)) {
    pen.ellipse(a.estimate, a.radius_km, a.radius_km, 0, "estimate", 2, { dash: [7, 5] });
    if (a.ellipse && part === 5) {
      pen.ellipse(a.estimate, a.ellipse.major_km, a.ellipse.minor_km, a.ellipse.azimuth_deg, "estimate", 1.5, { filled: 0.12 });
    }
    const [off, south] = [distance(a.estimate, a.truth), a.estimate.y < a.truth.y];
    if (shown.truth) pen.line([a.truth, a.estimate], "ink", 1.5, { dash: [2, 3] });
    pen.mark(a.estimate, "cross", "estimate", 9, shown.unnamed ? "" : shown.truth ? `published: ${metres(off)} off` : `${course.user}, published`, south ? "below" : "above");
  }
  if (shown.truth) pen.mark(a.truth, "disc", "truth", 8, shown.unnamed ? "" : course.user, a.estimate && a.estimate.y < a.truth.y ? "above" : "below");
}

// crowd draws the other vehicles: where they are, and what is published of them.
function crowd(pen: Pen, course: Course, now: number, others: Course[], shown: Shown): void {
  for (const c of others) {
    const i = c.user === course.user ? -1 : c.time_ms.findLastIndex((t) => t <= now);
    const [x, y] = [c.estimate_x[i], c.estimate_y[i]];
    if (i < 0 || now - c.time_ms[i]! > pauseOf(pen.map) || typeof x !== "number" || typeof y !== "number") continue;
    const at = { x: c.truth_x[i]!, y: c.truth_y[i]! };
    if (shown.truth) {
      pen.line([at, { x, y }], "soft", 1, { dash: [2, 3] });
      pen.mark(at, "disc", "truth", 4);
    }
    pen.mark({ x, y }, "cross", "estimate", 4);
  }
}

export interface Entry { sign: Sign | "fill" | "line" | "dashes" | "circle"; colour: string; text: string; secret?: boolean }

// entries of the legend of a part.
function entries(a: Anatomy, part: number, shown: Shown): Entry[] {
  const list: Entry[] = [{ sign: "fill", colour: "street", text: "busy cells" }];
  if (shown.truth) list.push({ sign: "disc", colour: "truth", text: "the truth", secret: true });
  if (part === 0 || part === 5) {
    list.push({ sign: "fill", colour: "posterior", text: "observer’s belief" });
    if (a.estimate) {
      list.push({ sign: "cross", colour: "estimate", text: "published" });
      list.push({ sign: "circle", colour: "estimate", text: "95 % of the belief" });
    }
  }
  if (part >= 1 && part <= 3) list.push({ sign: "fill", colour: "prior", text: "expected before this release" });
  if (part === 4) list.push({ sign: "fill", colour: "likelihood", text: "what the draw speaks for (dark) and against (pale)" });
  if (a.release && (part === 3 || part === 4 || part === 0 && !a.codebook && a.set)) {
    list.push({ sign: "diamond", colour: "release", text: "the published draw" });
  }
  if (a.codebook && part >= 2 && part <= 4) {
    list.push({ sign: "line", colour: "border", text: "borders between votes" });
    if (part === 2) list.push({ sign: "dot", colour: "border", text: "code points, with the share of the expectation" });
  }
  if (a.set && part === 2) list.push({ sign: "fill", colour: "border", text: "the location set" });
  if (a.set && part >= 2 && part <= 4) list.push({ sign: "line", colour: "border", text: `its hull${part === 3 && shown.truth ? " (dashed: the shape of the noise)" : ""}` });
  if (a.set?.drift && part === 2 && shown.truth) list.push({ sign: "star", colour: "truth", text: "surrogate", secret: true });
  return list;
}

export function legend(list: Entry[]): HTMLElement {
  return make("ul", { class: "legend" }, ...list.map((entry) => {
    const canvas = make("canvas", { width: "52", height: "44", "aria-hidden": "true" });
    const c = canvas.getContext("2d")!;
    c.setTransform(2, 0, 0, 2, 26, 22);
    const [on, { sign }] = [new CanvasSurface(c), entry];
    const ink = { stroke: entry.colour, width: 2, dash: sign === "line" ? [] : [4, 3] };
    if (sign === "fill") on.shape((path) => path.rect(-9, -7, 18, 14), { fill: entry.colour });
    else if (sign === "circle") on.shape((path) => path.ellipse(0, 0, 8, 8, 0, 0, 2 * Math.PI), ink);
    else if (sign === "line" || sign === "dashes") on.shape((path) => [-10, 10].forEach((x) => path[x < 0 ? "moveTo" : "lineTo"](x, 0)), ink);
    else sketch(on, [0, 0, 1, 1], sign, 6, entry.colour);
    return make("li", {}, canvas, make("span", {}, entry.text,
      entry.secret ? make("span", { class: "secret" }, " (only you see it)") : null));
  }));
}

// zoomer makes the buttons of a map.
export function zoomer(view: MapView): HTMLElement {
  const zoom = (text: string, label: string, act: () => void) => button({ "aria-label": label, title: label }, text, act);
  return make("div", { class: "zoom" },
    zoom("+", "Zoom in", () => view.zoom(1.5)),
    zoom("−", "Zoom out", () => view.zoom(1 / 1.5)),
    zoom("⤢", "The whole map", () => view.fit()));
}

// seen makes a map ask for what is closer, and a view show what has come since, once a frame.
export function seen(state: State, map: MapView, element: () => HTMLElement, render: () => void): MapView {
  map.closer = (view) => {
    state.view = view;
    state.changed();
  };
  let next = 0;
  state.growers.add(() => {
    if (element().hidden || next) return;
    next = requestAnimationFrame(() => {
      next = 0;
      render();
    });
  });
  return map;
}

// lookAt fetches what a picture of a step needs.
export async function lookAt(state: State, s: Settings, signal: AbortSignal, alone = false): Promise<Look> {
  const fix = state.fix;
  const [map, step, course, others] = await Promise.all([
    state.map(signal), state.course(s, fix).then(() => state.step(s, fix, signal)), state.course(s, fix), alone ? [] : state.others(s),
  ]);
  const from = originOf(course, fix);
  return { map, course, others, step, origin: from === fix ? step : await state.step(s, from, signal) };
}

// StepView is the view of a step.
export class StepView {
  readonly element: HTMLElement;
  readonly beside: HTMLElement;
  readonly map: MapView;
  readonly maps: MapView[];
  private looks: Look[] = []; // of the small pictures
  private part = 0;
  private halves: Look[] = [];
  private readonly four: { map: MapView; take: HTMLButtonElement; figure: HTMLElement }[];
  private readonly latest = new Latest(() => this.element);
  private readonly list = make("ol", { class: "parts" });
  private readonly caption = make("figcaption", { id: "caption", "aria-live": "polite" });
  private readonly under = make("div");
  private readonly says = make("div", { class: "says" });
  private readonly mine = make("p", { class: "after", id: "mine" });
  readonly facts = make("dl", { class: "facts", id: "step-facts" });
  private readonly picture: HTMLElement;

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void, turned: () => void) {
    const canvas = make("canvas", { role: "img", "aria-describedby": "caption", "aria-label": "Map of the step" });
    this.map = seen(state, new MapView(canvas, camera), () => this.element, () => this.halves[0] && this.tell(this.halves[0]));
    this.four = [0, 1, 2, 3].map((i) => {
      const map = new MapView(make("canvas", { role: "img", "aria-describedby": "caption", "aria-label": "Map of the step under another ε" }), camera);
      const take = button({ class: "corner", title: "Take this ε" }, "", () => {
        state.settings.epsilon = state.four[i]!.epsilon;
        state.shows = 1;
        turned();
      });
      return { map, take, figure: make("figure", { class: "picture", hidden: "" }, map.canvas, take) };
    });
    this.maps = [this.map, ...this.four.map(({ map }) => map)];
    this.picture = make("div", { class: "picture" }, canvas, zoomer(this.map), ...this.map.splitter());
    this.element = make("div", {}, make("figure", { class: "beside" }, this.picture,
      make("div", { class: "four" }, ...this.four.map(({ figure }) => figure)),
      make("div", { class: "text" }, this.list, this.caption, this.under)));
    this.beside = make("div", { class: "stack" },
      make("section", { class: "card", "aria-label": "What ε means" }, this.says));
    this.map.opened = (camera) => this.approach(camera);
  }

  // approach looks at the vehicle so closely that the truth and the guess lie apart, on a map where they
  // would not.
  private approach(camera: Camera): void {
    const { step, map } = this.halves[0]!;
    if (!step.estimate) return;
    const seen = Math.max(4 * step.radius_km, 6 * distance(step.estimate, step.truth), 9 * map.cell_km);
    const [width, height] = [map.width * map.cell_km, map.height * map.cell_km];
    const nearness = Math.min(width, height) / seen;
    if (nearness <= 3) return;
    camera.nearness = nearness;
    const inside = (middle: number, side: number) => Math.max(seen / 2, Math.min(side - seen / 2, middle));
    camera.x = inside((step.estimate.x + step.truth.x) / 2, width);
    camera.y = inside((step.estimate.y + step.truth.y) / 2, height);
  }

  // move goes to the next or the previous part.
  move(by: number): void {
    this.part = Math.min(5, Math.max(0, this.part + by));
    this.render();
  }

  update(): void {
    const { state } = this;
    void this.latest.run(
      (signal) => Promise.all([Promise.all(state.halves.map((s) => lookAt(state, s, signal))),
        Promise.all(state.four.map((s) => lookAt(state, s, signal, true)))]),
      ([halves, four]) => {
        [this.halves, this.looks] = [halves, four];
        this.render();
      },
      this.failed,
    );
  }

  private render(): void {
    const [look] = this.halves;
    if (!look) return;
    const s = look.course.settings;
    const shown = { truth: this.state.truth };
    const told = parts(look.step, look.origin, look.course, s, shown.truth);
    this.map.show(look.map, ...this.halves.map((one) => ({ name: named(one.course.settings), scene: (pen: Pen) => paint(pen, one, this.part, shown) })));
    this.picture.hidden = this.looks.length > 0;
    this.four.forEach(({ map, take, figure }, i) => {
      const small = this.looks[i];
      figure.hidden = !small;
      if (!small) return;
      const { estimate, radius_km } = small.step;
      take.textContent = `ε = ${sum(small.course.settings.epsilon)}${estimate ? `: within ${metres(radius_km)}` : ""}`;
      take.setAttribute("aria-pressed", String(small.course.settings.epsilon === s.epsilon));
      map.show(small.map, { name: "", scene: (pen) => paint(pen, small, this.part, { ...shown, unnamed: true }) });
    });
    this.listParts(told);
    this.caption.replaceChildren(rich(told[this.part]!.text));
    const list = entries(this.part >= 1 && this.part <= 4 ? look.origin : look.step, this.part, shown);
    this.under.replaceChildren(legend(list));
    this.says.replaceChildren(make("p", {}, rich(meaning(s.epsilon))), this.mine);
    this.tell(look);
  }

  private listParts(told: Part[]): void {
    if (this.list.children.length === 0) {
      told.forEach((_, i) => this.list.append(make("li", {}, button({}, "", () => this.move(i - this.part)))));
    }
    told.forEach((part, i) => {
      const tab = this.list.children[i]!.firstChild as HTMLElement;
      tab.replaceChildren(make("b", {}, i === 0 ? "★" : String(i)), make("span", {}, part.title));
      tab.setAttribute("aria-pressed", String(i === this.part));
    });
  }

  // tell shows the numbers of a whole trace.
  private tell({ course }: Look): void {
    const all = this.halves.map((look) => look.course);
    const each = (of: (s: Summary) => string) => all.map((c) => of(c.summary)).join(" | ");
    const { truth } = this.state;
    this.mine.replaceChildren(rich(toWhom(course, truth)));
    const i = this.state.fix;
    const off = (of: (c: Course) => number | null | undefined) => all.map((c) => metres(of(c))).join(" | ");
    this.facts.replaceChildren(
      course.done < course.total
        ? fact("Computed so far", `${course.done.toLocaleString("en")} of ${course.total.toLocaleString("en")} reports`, "the numbers beside are about these")
        : "",
      truth ? fact("Off now", off((c) => (typeof c.estimate_x[i] === "number" ? distance({ x: c.estimate_x[i]!, y: c.estimate_y[i]! }, { x: c.truth_x[i]!, y: c.truth_y[i]! }) : null)),
        "distance from the truth to what is published") : "",
      fact("95 % within", off((c) => c.radius_km[i]), "the radius of the circle"),
      fact("Σε so far", all.map((c) => sum(c.spent[i] ?? 0)).join(" | "), "the sum of ε of the releases up to now"),
      ...(truth ? [fact("Trace: median", each((s) => metres(s.estimate_m.median / 1000)), "how far off what is published is, over all records of this trace"),
      fact("Model alone", each((s) => metres(s.blind_m.median / 1000)), "the median of a guess without any record, over this trace")]
        : [fact("Trace: releases", each((s) => String(s.releases)))]),
      fact("Trace: Σε", each((s) => sum(s.spent)), "the sum of ε of all releases of this trace"));
  }
}
