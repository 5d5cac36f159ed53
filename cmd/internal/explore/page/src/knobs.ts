// The knobs of a release.

import { About, Settings } from "./api";
import { button, during, make, nearest, sum } from "./look";
import { State } from "./state";
import { mechanisms } from "./words";

// scale of the slider of ε: its positions are equal factors.
const epsilons = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6.6, 8, 10, 15, 20];
const intervals = [1, 2, 4, 10, 20, 40, 80, 120, 360, 720];

// named says settings in a few words.
export function named(s: Settings): string {
  return [`${(mechanisms[s.mechanism] ?? s.mechanism).replace(/ \(.*/, "")}, ε = ${sum(s.epsilon)}`,
    s.mechanism === "codebook" ? "" : `δ = ${s.delta}`,
    s.interval > 1 ? `every ${s.interval} steps` : "", s.budget ? `at most ${s.budget} a day` : "", s.hours]
    .filter((text) => text).join(", ");
}

// Panel has the knobs: those of settings A, or of B where the picture is split.
export class Panel {
  readonly element = make("section", { class: "card", "aria-label": "Knobs" });
  readonly below = make("div", { class: "price" }); // what each ε costs

  constructor(private readonly state: State, private readonly about: About) {}

  // lay shows the settings that the knobs turn.
  lay(): void {
    const { state, about } = this;
    const s = state.turned;
    const changed = () => state.changed();
    // relay shows other knobs, and keeps the focus on one of them.
    const relay = (id: string) => {
      const focused = document.activeElement?.id === id;
      this.lay();
      if (focused) document.getElementById(id)?.focus();
      changed();
    };

    const slide = (name: string, list: number[], value: number, say: (x: number) => string, set: (x: number) => void) => {
      const input = make("input", {
        type: "range", id: `a-${name}`, min: "0", max: String(list.length - 1), step: "1",
        value: String(nearest(list, value)),
      });
      const output = make("output", { for: `a-${name}` }, say(value));
      const read = () => list[Number(input.value)]!;
      const speak = (x: number) => {
        output.textContent = say(x);
        input.setAttribute("aria-valuetext", say(x));
      };
      speak(value);
      let waiting: ReturnType<typeof setTimeout>;
      const apply = () => {
        clearTimeout(waiting);
        set(read());
        changed();
      };
      input.addEventListener("input", () => {
        speak(read());
        clearTimeout(waiting);
        waiting = setTimeout(apply, 150); // the picture follows the hand
      });
      input.addEventListener("change", apply);
      return make("div", { class: "row" }, input, output);
    };
    const choose = (name: string, text: string, options: [value: string, text: string][], value: string, set: (x: string) => void) => {
      const list = make("select", { id: `a-${name}` }, ...options.map(([v, t]) => make("option", { value: v }, t)));
      if (!options.some(([v]) => v === value)) list.append(make("option", { value }, value)); // from an address
      list.value = value;
      list.addEventListener("change", () => {
        set(list.value);
        relay(list.id);
      });
      return make("label", {}, text, list);
    };
    const number = (list: number[], say: (x: number) => string) => list.map((x): [string, string] => [String(x), say(x)]);
    const again = button({ id: "a-again", title: "The same reports with another seed of the noise" }, "Draw again", () => {
      s.seed++;
      changed();
    });
    const compare = (id: string, shows: number, text: string, title: string) => button({ id, "aria-pressed": String(state.shows === shows), title }, text, () => {
      state.shows = state.shows === shows ? 1 : shows;
      state.turnB = state.shows === 2;
      relay(id);
    });
    const which = ["A", "B"].map((letter) => button({ id: `turn-${letter}`, "aria-pressed": String((letter === "B") === state.turnB) }, letter, () => {
      state.turnB = letter === "B";
      relay(`turn-${letter}`);
    }));
    this.element.replaceChildren(make("div", { class: "knobs" },
      state.shows === 2 ? make("div", { class: "row" }, make("strong", {}, "Turn the knobs of"), ...which) : null,
      make("label", {}, "ε: how much one release may tell",
        slide("epsilon", epsilons, s.epsilon, (x) => `ε = ${sum(x)}`, (x) => (s.epsilon = x))),
      make("label", {}, "ε: how much all days together may tell",
        slide("period", epsilons, state.period, (x) => `ε = ${sum(x)}`, (x) => (state.period = x))),
      make("label", {}, "A new release at most every",
        slide("interval", intervals, s.interval, (n) => during(n * about.step_s), (n) => (s.interval = n))),
      this.below,
      make("div", { class: "pair" },
        choose("budget", "Budget of ε a day", number([0, 5, 10, 20, 50, 100], (x) => (x ? `Σε ≤ ${x}` : "none")), String(s.budget), (x) => (s.budget = Number(x))),
        choose("hours", "Releases allowed", [["", "at any time"], ["06:00-20:00", "06 to 20 h UTC"], ["16:30-17:30", "16:30 to 17:30"]], s.hours, (x) => (s.hours = x)),
        choose("mechanism", "Mechanism", Object.entries(mechanisms), s.mechanism, (x) => (s.mechanism = x)),
        choose("lag", "Smoothing waits for", [["1", "the next release"], ...[10, 40].map((n): [string, string] => [String(n), `${during(n * about.step_s)} more`]), ["-1", "all records"]], String(s.lag), (x) => (s.lag = Number(x))),
        s.mechanism === "codebook" ? null
          : choose("delta", "δ: outside the set", number([0, 0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7], String), String(s.delta), (x) => (s.delta = Number(x)))),
      make("div", { class: "row" }, again, compare("split", 2, "Split in two", "Two settings, by a split of one picture"),
        compare("four", 4, "Four ε", "The same moment under four ε, beside each other"))));
  }
}
