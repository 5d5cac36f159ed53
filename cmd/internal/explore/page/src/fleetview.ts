// Where all vehicles are: in truth, as counts may say it, and as records tell it.

import { Crowd, Crowds, Field, MapInfo } from "./api";
import { fact, make, metres, percent, rich, sum, windowsOf } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { zoomer } from "./stepview";

type Of = "truth" | "counted" | "fitted" | "blind";

const pictures: { of: Of; title: string; says: string; colour: string }[] = [
  { of: "truth", title: "The truth (only you see it)", colour: "truth", says: "Where each vehicle last reported." },
  { of: "counted", title: "Counts with noise", colour: "release", says: "Counted on the trusted side, with noise." },
  { of: "fitted", title: "Estimate from the records", colour: "posterior", says: "By anybody who has all sanitized records." },
  { of: "blind", title: "The model alone", colour: "prior", says: "Without any record." },
];

// FleetView is the view of all users.
export class FleetView {
  readonly element: HTMLElement;
  readonly facts = make("dl", { class: "facts", id: "fleet-facts" });
  readonly beside: HTMLElement;
  readonly maps: MapView[];
  private start = 0;
  private readonly latest = new Latest(() => this.element);
  private readonly says = make("div", { class: "says", id: "fleet-says", "aria-live": "polite" });
  private readonly table = make("div", { class: "wide", id: "windows" });
  private readonly notes: HTMLElement[] = [];
  private readonly scales: HTMLElement[] = [];

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const figures: HTMLElement[] = [];
    this.maps = pictures.map((p, i) => {
      const canvas = make("canvas", { role: "img", "aria-label": `Map of the fleet: ${p.title}. ${p.says}` });
      const view = new MapView(canvas, camera);
      const note = make("p", { class: "note", hidden: "" });
      const scale = make("p", { class: `scale ${p.of}` });
      this.scales.push(scale);
      this.notes.push(note);
      figures.push(make("figure", { class: "picture half" }, canvas,
        make("figcaption", { class: p.of === "truth" ? "corner secret" : "corner", title: p.says }, p.title),
        note, scale, i === 1 ? zoomer(view) : null));
      return view;
    });
    this.element = make("div", {}, make("div", { class: "two" }, ...figures));
    this.beside = make("div", { class: "stack" },
      make("section", { class: "card", "aria-label": "Windows of the fleet" }, this.table),
      make("section", { class: "card" }, this.says));
  }

  // update shows truth and counts at once, and the estimate when it has been made.
  update(): void {
    const s = { ...this.state.settings };
    const fetch = async (signal: AbortSignal, quick: boolean) => {
      const [map, crowds] = await Promise.all([this.state.map(s, signal), this.state.crowds(s, quick, signal)]);
      const most = Math.max(...crowds.windows.map((w) => w.vehicles));
      const chosen = crowds.windows.find((w) => w.start_ms === this.start) ?? crowds.windows.findLast((w) => w.vehicles === most);
      return { map, crowds, crowd: chosen ? await this.state.crowd(s, chosen.start_ms, quick, signal) : null };
    };
    const whole = async (signal: AbortSignal) => {
      const first = await fetch(signal, true);
      if (!signal.aborted) this.render(first.map, first.crowds, first.crowd);
      return fetch(signal, false);
    };
    void this.latest.run(whole, ({ map, crowds, crowd }) => this.render(map, crowds, crowd), this.failed);
  }

  // left gives up what the view still waits for: a fleet takes long.
  left(): void {
    this.latest.stop();
  }

  private render(map: MapInfo, crowds: Crowds, crowd: Crowd | null): void {
    const most = crowd ? Math.max(...pictures.map((p) => crowd[p.of].max)) : 1;
    this.maps.forEach((view, i) => {
      const { of, colour } = pictures[i]!;
      view.show(map, (pen) => {
        if (crowd) pen.field(levelled(crowd[of], most), colour, "root", 0.95, crowd.zone_km);
      });
      const lacks = crowds.no_estimate !== "" && (of === "fitted" || of === "blind");
      this.notes[i]!.hidden = !lacks;
      this.notes[i]!.textContent = crowds.no_estimate;
      this.scales[i]!.textContent = `0 to ${Math.round(most)} vehicles in a zone`;
    });
    const off = (x: number | null) => (x === null ? "…" : `${Math.round(100 * x)} %`);
    const times = windowsOf(crowds.windows);
    this.table.replaceChildren(make("table", { class: "small" },
      make("thead", {}, make("tr", {}, ...["UTC", "vehicles", "counts", "records", "model"].map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...crowds.windows.map((w, i) => {
        const now = w.start_ms === crowd?.start_ms;
        const button = make("button", { type: "button", "aria-pressed": String(now) }, times[i]!.replace(" to ", "–"));
        button.addEventListener("click", () => {
          this.start = w.start_ms;
          this.update();
        });
        return make("tr", now ? { class: "key" } : {}, make("th", { scope: "row" }, button), make("td", {}, String(w.vehicles)),
          ...[w.counted_off, w.fitted_off, w.blind_off].map((x) => make("td", {}, off(x))));
      }))));
    if (!crowd) {
      this.says.replaceChildren(make("p", {}, "No window has a vehicle whose records can be followed."));
      return;
    }
    this.facts.replaceChildren(
      fact("Counts are off", off(crowd.counted_off), "the share of the vehicles that would have to be in another zone"),
      fact("Records are off", off(crowd.fitted_off), "the same, for the estimate from all records"),
      fact("Model is off", off(crowd.blind_off), "the same, without any record"),
      fact("ε of the counts", `${sum(crowds.settings.epsilon)} a day`, "for everything that a vehicle does in a day"),
      fact("Σε of the records", crowds.spent === null ? "…" : sum(crowds.spent), "of a vehicle, in all these windows, on average"),
      fact("A count is within", `± ${crowds.half_width}`, "in 90 % of all windows"));
    this.says.replaceChildren(
      make("p", {}, rich(`*${crowd.vehicles.toLocaleString("en")} ${crowds.simulated ? "simulated vehicles, which move by the model of the buses" : "vehicles"}.* ` +
        `One record tells little about one vehicle; all together tell where many are. Zones are ${metres(crowd.zone_km)} wide.` +
        (crowd.fitted_off === null ? "" : ` To turn the estimate from the records into the truth, ${percent(crowd.fitted_off)} of the vehicles would have to be in another zone.`))),
      make("p", {}, `Somebody who is trusted with all fixes can publish counts: each vehicle counts in at most ${crowds.per_day} windows of a day. ` +
        "A zone with few vehicles tells about single people: do not publish such a zone alone."));
  }
}

const scaled = new WeakMap<Field, { most: number; field: Field }>();

// levelled is a field in the colours of all four: the darkest colour is the same number in each.
function levelled(field: Field, most: number): Field {
  if (field.blocks === 0 || field.max >= most) return field;
  const kept = scaled.get(field);
  if (kept?.most === most) return kept.field;
  const root = Math.sqrt(field.max / most);
  const raw = Uint8Array.from(atob(field.data), (c) => c.charCodeAt(0));
  for (let i = 0; i < raw.length; i += 2) {
    const q = Math.round((raw[i]! | (raw[i + 1]! << 8)) * root);
    raw[i] = q & 255;
    raw[i + 1] = q >> 8;
  }
  let text = "";
  for (const b of raw) text += String.fromCharCode(b);
  const own = { ...field, max: most, data: btoa(text) };
  scaled.set(field, { most, field: own });
  return own;
}
