// Where all vehicles are: in truth, as counts may say it, and by the sum of their posteriors.

import { ask, Crowd, Crowds, CrowdSpan, MapInfo, Span } from "./api";
import { button, fact, make, metres, minute, percent, rich, sum, whileShown } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { zoomer } from "./stepview";

type Of = "truth" | "counted" | "posterior";

const pictures: { of: Of; title: string; says: string; colour: string }[] = [
  { of: "truth", title: "Truth (only you see it)", colour: "truth", says: "Where each vehicle first reported in the window." },
  { of: "counted", title: "Counts with noise", colour: "release", says: "Counted on the trusted side, with noise." },
  { of: "posterior", title: "Sum of posteriors", colour: "posterior", says: "By anybody who has all sanitized records." },
];

// FleetView is the view of all users, or of a topic where there is no state.
export class FleetView {
  readonly element: HTMLElement;
  private readonly tiles = make("dl", { class: "facts" });
  readonly facts = make("div", {}, this.tiles);
  readonly beside: HTMLElement;
  readonly maps: MapView[];
  private start = 0;
  private readonly latest = new Latest(() => this.element);
  // update shows truth and counts at once, and the estimate when it has been made; a topic again and
  // again while the view is open.
  readonly update: () => void;
  private readonly says = make("div", { class: "says", "aria-live": "polite" });
  private readonly table = make("div", { class: "wide windows" });
  private readonly pictures: (typeof pictures[number] & { view: MapView; note: HTMLElement; scale: HTMLElement })[];
  private map: MapInfo | null = null; // of a topic
  private begun = 0; // how often the topic was read from its first record
  private listed = ""; // what the table shows

  constructor(private readonly state: State | null, camera: Camera, private readonly failed: (e: unknown) => void) {
    this.update = state ? () => this.release(state) : whileShown(() => this.element, 5000, () => this.follow(), failed);
    this.facts.id = state ? "fleet-facts" : "live-fleet-facts";
    this.pictures = (state ? pictures : pictures.slice(2)).map((p) => {
      const canvas = make("canvas", { role: "img", "aria-label": `Map of the fleet: ${p.title}. ${p.says}` });
      return { ...p, view: new MapView(canvas, camera), note: make("p", { class: "note", hidden: "" }), scale: make("p", { class: `scale ${p.of}` }) };
    });
    this.maps = this.pictures.map(({ view }) => view);
    this.element = make("div", {}, make("div", { class: "three" }, ...this.pictures.map(({ of, title, says, view, note, scale }, i) =>
      make("figure", { class: `picture half ${of}` },
        make("figcaption", { title: says }, make("span", { class: of === "truth" ? "corner secret" : "corner" }, title), scale),
        view.canvas, note, i === this.pictures.length - 1 ? zoomer(view) : null))),
      make("section", { class: "card", "aria-label": "Windows of the fleet" }, this.table));
    this.beside = make("div", { class: "stack" }, make("section", { class: "card" }, this.says));
  }

  // chosen is the window to look at. If nobody chose it is the last one, of traces with the most vehicles.
  private chosen<W extends Span>(windows: W[]): W | undefined {
    const most = Math.max(...windows.map((w) => w.vehicles));
    return windows.find((w) => w.start_ms === this.start) ?? windows.findLast((w) => !this.state || w.vehicles === most);
  }

  // follow looks at a topic once.
  private async follow(): Promise<void> {
    this.map ??= await ask<MapInfo>("live/map");
    const live = await ask<{ windows: CrowdSpan[]; no_fleet: string; start: number }>("live", { start: this.begun, since: 2 ** 50 });
    this.begun = live.start;
    const chosen = this.chosen(live.windows);
    this.render(this.map, { windows: live.windows, no_estimate: live.no_fleet },
      chosen ? await ask<Crowd>("live/window", { start_ms: chosen.start_ms }) : null);
  }

  private release(state: State): void {
    const s = { ...state.settings };
    const fetch = async (signal: AbortSignal) => {
      const [map, crowds] = await Promise.all([state.map(signal), state.crowds(s, signal)]);
      const chosen = this.chosen(crowds.windows);
      return { map, crowds, crowd: chosen ? await state.crowds<Crowd>(s, signal, { start_ms: chosen.start_ms }) : null };
    };
    const whole = async (signal: AbortSignal) => {
      for (;;) {
        const now = await fetch(signal);
        if (now.crowds.done === now.crowds.total) return now;
        if (!signal.aborted) this.render(now.map, now.crowds, now.crowd);
      }
    };
    void this.latest.run(whole, ({ map, crowds, crowd }) => this.render(map, crowds, crowd), this.failed);
  }

  // left gives up what the view still waits for: a fleet takes long.
  left(): void {
    this.latest.stop();
  }

  private render(map: MapInfo, crowds: Crowds | Pick<Crowds, "windows" | "no_estimate">, crowd: Crowd | null): void {
    const truth = this.state?.truth ?? false;
    this.element.querySelector<HTMLElement>(".picture.truth")?.toggleAttribute("hidden", !truth);
    const [done, total] = "total" in crowds ? [crowds.done, crowds.total] : [0, 0];
    const waits = crowds.no_estimate || (done < total ? `The records are being made: ${Math.floor(100 * done / total)} %` : "");
    for (const { of, colour, view, note, scale } of this.pictures) {
      view.show(map, { name: "", scene: (pen) => pen.field(crowd && crowd[of], colour, "root", 0.95, crowd?.zone_km) });
      note.hidden = waits === "" || of !== "posterior";
      note.textContent = waits;
      scale.textContent = `0 to ${Math.round(crowd?.posterior.max ?? 1)} a zone`;
    }
    const off = (x: number | null) => (x === null ? "…" : `${Math.round(100 * x)} %`);
    const columns: [string, (w: CrowdSpan) => string][] = "settings" in crowds && truth
      ? [["counts", (w) => off(w.counted_off)], ["records", (w) => off(w.posterior_off)]]
      : [["vehicles", (w) => String(w.vehicles)]];
    const span = (crowds.windows.at(-1)?.end_ms ?? 0) - (crowds.windows[0]?.start_ms ?? 0);
    const listed = JSON.stringify([crowds.windows, crowd?.start_ms, truth]);
    if (this.listed !== listed) this.table.replaceChildren(make("table", { class: "small" },
      make("caption", {}, "settings" in crowds && truth ? "How far off each is, by window" : "Windows"),
      make("thead", {}, make("tr", {}, ...["UTC", ...columns.map(([name]) => name)].map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...crowds.windows.map((w) => {
        const now = w.start_ms === crowd?.start_ms;
        const chooser = button({ "aria-pressed": String(now) }, `${minute(w.start_ms, span)}–${minute(w.end_ms, 0)}`, () => {
          this.start = w.start_ms;
          if (this.state) this.update();
          else void this.follow().catch(this.failed);
        });
        return make("tr", now ? { class: "key" } : {}, make("th", { scope: "row" }, chooser),
          ...columns.map(([, say]) => make("td", {}, say(w))));
      }))));
    this.listed = listed;
    if (!crowd) {
      this.says.replaceChildren(make("p", {}, this.state ? "No window has a vehicle whose records can be followed." : "No window of the topic has ended yet. The page looks again every moment."));
      return;
    }
    if (!("settings" in crowds)) {
      this.tiles.replaceChildren(fact("Vehicles", String(crowd.vehicles)), fact("A zone", metres(crowd.zone_km)), fact("Windows", String(crowds.windows.length)));
      this.says.replaceChildren(make("p", {}, "The sum of all vehicles' posteriors, from the records of the topic. It leans on the model, and counts are nearer to the truth. " +
        "With a handful of vehicles it tells about individual people, so do not publish it."));
      return;
    }
    this.tiles.replaceChildren(
      ...(truth ? [fact("Counts are off", off(crowd.counted_off), "the share of the vehicles that would have to be in another zone"),
        fact("Records are off", off(crowd.posterior_off), "the same, for the sum of posteriors")] : []),
      fact("ε of the counts", `${sum(crowds.settings.epsilon)} a day`, "for everything that a vehicle does in a day"),
      fact("Σε of the records", crowds.spent === null ? "…" : sum(crowds.spent), "of a vehicle, in all these windows, on average"),
      fact("A count is within", `± ${crowds.half_width}`, "in 90 % of all windows"));
    this.says.replaceChildren(
      make("p", {}, rich(`*${crowd.vehicles.toLocaleString("en")} ${crowds.simulated ? "simulated vehicles, which start on the streets of the buses. In each window they move by the model of the buses and report once" : "vehicles"}.* ${crowds.zones}` +
        (!truth ? "" : ` *Counts with noise put ${off(crowd.counted_off)} of them into a wrong zone,* and each vehicle spends ε = ${sum(crowds.settings.epsilon)} for a whole day.` +
          (crowd.posterior_off === null ? "" : ` A sum of posteriors from the records of single vehicles misplaces ${percent(crowd.posterior_off)}.`)))),
      make("p", {}, `Somebody who is trusted with all fixes can publish counts: each vehicle counts in at most ${crowds.per_day} windows of a day. ` +
        "A zone with few vehicles tells about single people: do not publish such a zone alone."));
  }
}
