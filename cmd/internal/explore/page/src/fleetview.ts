// Where a fleet usually is at a time of the day: in truth, and as it may be published.

import { Off, Usual, MapInfo } from "./api";
import { fact, make, raised, rich, sum } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { zoomer } from "./stepview";

const pictures = [
  { of: "truth", title: "Truth (only you see it)", colour: "truth", says: "The average of all days." },
  { of: "typical", title: "A typical day", colour: "posterior", says: "Counted over all days, with noise once." },
  { of: "daily", title: "Daily counts", colour: "release", says: "The mean of the counts of all days, each with noise." },
] as const;

// Ruler is a slider of times of the day.
export class Ruler {
  readonly input: HTMLInputElement;
  readonly name: HTMLElement;
  private readonly time = make("output");
  readonly element: HTMLElement;

  constructor(id: string, name: string, moved: (at: number) => void) {
    this.input = make("input", { type: "range", id, min: "0", value: "0" });
    this.input.addEventListener("input", () => moved(Number(this.input.value)));
    this.time.setAttribute("for", id);
    this.name = make("label", { for: id }, name);
    this.element = make("div", { class: "bar card" }, this.name, this.input, this.time);
  }

  // show shows one of some times.
  show(times: string[], at: number): void {
    this.input.max = String(times.length - 1);
    this.input.value = String(at);
    this.time.textContent = times[at] ?? "";
    this.input.setAttribute("aria-valuetext", times[at] ?? "");
  }
}

// hour writes a time of the day.
const hour = (ms: number) => `${Math.floor(ms / 3_600_000)}:${String(ms / 60_000 % 60).padStart(2, "0")}`;

// FleetView is the view of all vehicles.
export class FleetView {
  readonly element: HTMLElement;
  readonly facts = make("dl", { class: "facts", id: "fleet-facts" });
  readonly beside: HTMLElement;
  readonly maps: MapView[];
  private readonly latest = new Latest(() => this.element);
  private readonly says = make("div", { class: "says", "aria-live": "polite" });
  private readonly table = make("table", { class: "small" });
  private readonly ruler: Ruler;
  private readonly pictures: (typeof pictures[number] & { view: MapView; price: HTMLElement; verdict: HTMLElement; scale: HTMLElement })[];

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    this.ruler = new Ruler("slot", "Time of day, UTC", (slot) => {
      state.slot = slot;
      state.changed();
    });
    this.pictures = pictures.map((p) => {
      const canvas = make("canvas", { role: "img", "aria-label": `Map of the fleet: ${p.title}. ${p.says}` });
      return { ...p, view: new MapView(canvas, camera), price: make("p"), verdict: make("strong"), scale: make("p", { class: `scale ${p.of}` }) };
    });
    this.maps = this.pictures.map(({ view }) => view);
    this.element = make("div", {}, this.ruler.element,
      make("div", { class: "three" }, ...this.pictures.map(({ of, title, says, view, price, verdict, scale }, i) =>
        make("figure", { class: `picture half ${of}` },
          make("figcaption", { title: says }, make("span", { class: of === "truth" ? "corner secret" : "corner" }, title), price, verdict, scale),
          view.canvas, i === pictures.length - 1 ? zoomer(view) : null))),
      make("section", { class: "card wide", "aria-label": "What is off, for which price" }, this.table));
    this.beside = make("div", { class: "stack" }, make("section", { class: "card" }, this.says));
  }

  update(): void {
    const [state, slot] = [this.state, this.state.slot];
    this.element.querySelector<HTMLElement>(".picture.truth")!.hidden = !state.truth;
    void this.latest.run((signal) => Promise.all([state.map(signal), state.usual(slot, signal)]),
      ([map, usual]) => this.render(map, usual, slot), this.failed);
  }

  private render(map: MapInfo, u: Usual, slot: number): void {
    const truth = u.truth !== null;
    const times = u.slots.map((s) => `${hour(s.start_ms)} to ${hour(s.end_ms)}`);
    const [off, time, all, each] = [u.slots[slot]!.off, times[slot]!, sum(u.epsilon), sum(u.epsilon / u.days)];
    this.ruler.show(times, slot);
    this.ruler.name.textContent = `Time of day, ${u.clock}`;
    const prices = { truth: `the mean of ${daysOf(u)}`, typical: `ε = ${all} for ${daysOf(u)}`, daily: `ε = ${each} a day, ${all} in all` };
    for (const { of, colour, view, price, verdict, scale } of this.pictures) {
      view.show(map, { name: "", plain: true, scene: (pen) => pen.field(u[of], colour, "root", 0.95, u.zone_km) });
      price.textContent = prices[of];
      scale.textContent = `0 to ${Math.round(u.typical.max)} a zone`;
      if (of === "truth") continue;
      const worth = worthOf(u, off, of);
      verdict.textContent = !truth ? "" : off.even === null ? "nobody drives" : worth === nothing ? "shows nothing" : `${worth} in a wrong zone`;
    }
    const row = (name: string, price: string, of: keyof Off) => make("tr", {}, make("th", { scope: "row" }, name),
      ...[price, ...(truth ? [worthOf(u, off, of), worthOf(u, u.off, of)] : [])].map((text) => make("td", {}, text)));
    this.table.replaceChildren(
      make("caption", {}, truth ? "Vehicles in a wrong zone" : "What it costs"),
      make("thead", {}, make("tr", {}, make("td"), ...[`ε of ${daysOf(u)}`, ...(truth ? [time, "All times"] : [])].map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, row("A typical day", all, "typical"), row(`Daily counts, ε = ${each} each`, all, "daily"),
        u.days > 1 ? row(`Daily counts, ε = ${all} each`, sum(u.epsilon * u.days), "each") : null, row("An even map", "0", "even")));
    this.facts.replaceChildren(
      fact("Days", `${u.days}, ${u.weekdays}`, `${u.from} to ${u.to}`),
      fact("ε of one day", each, "for all that a vehicle does on one of the days"),
      fact("A count is within", `± ${Math.round(u.half_width)}`, "in 90 % of all zones, before the estimate"));
    this.says.replaceChildren(...told(u, off, time).map((text) => make("p", {}, rich(text.replaceAll(" %", "\u00a0%")))));
  }
}

const nothing = "nothing";

// worthOf is the share of the vehicles that a map shows in a wrong zone, if that is less than on an even one.
function worthOf(u: Usual, off: Off, of: keyof Off): string {
  const [x, even] = [off[of], off.even];
  if (x === null || even === null) return "–";
  return of !== "even" && x > even - u.gain ? nothing : `${Math.round(100 * x)} %`;
}

const daysOf = (u: Usual) => (u.days === 1 ? "one day" : u.days === 2 ? "both days" : `all ${u.days} days`);

// told says what a person with vehicles learns from the maps of a time.
function told(u: Usual, off: Off, time: string): string[] {
  const [typical, daily, each] = (["typical", "daily", "each"] as const).map((of) => worthOf(u, off, of));
  const all = [`*${u.vehicles?.toLocaleString("en") ?? "The"} ${u.simulated ? "simulated " : ""}vehicles on ${u.days === 1 ? `one day, ${u.from}` : `${u.days} days (${u.weekdays}), ${u.from} to ${u.to}`}.* ` +
    `${u.simulated ? "Each starts at its own place, moves by the model of the buses, and goes back. " : ""}${u.zones}`];
  if (u.days === 1) all.push("A typical day needs more than one day.");
  if (u.truth && off.even === null) all.push(`*From ${time} nobody is on the map.* What is published of it is noise.`);
  else if (u.truth && typical === nothing) all.push(`*From ${time} a typical day says nothing at this ε:* an even map is as good. Choose a larger ε, larger zones, or count more vehicles.`);
  else if (u.truth) {
    all.push(`*From ${time} a typical day puts ${typical} of the vehicles into a wrong zone,* and an even map ${worthOf(u, off, "even")}.` + (u.days === 1 ? ""
      : ` For the same price daily counts ${daily === nothing ? "say nothing" : `err by ${daily}`}; for ${u.days} times the price ${each === nothing ? "too" : `they err by ${each}`}.`));
  }
  return [...all, `ε = ${sum(u.epsilon)} means: all that a vehicle does on ${daysOf(u)} changes anybody’s odds by a factor of at most ${raised(u.epsilon)}. ` +
    `A vehicle counts in at most ${u.per_day === 1 ? "one hour" : `${u.per_day} hours`} a day. Choose zones, days and ε by other days than those that you publish: “geodither counts” without --per-day compares them, and --typical publishes.`];
}
