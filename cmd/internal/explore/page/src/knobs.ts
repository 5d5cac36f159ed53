// The knobs of a release.

import { About, Settings } from "./api";
import { make, metres, sum } from "./look";
import { mechanisms } from "./words";

// scale of the slider of ε: its positions are equal factors.
const epsilons = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 10];
const deltas = [0, 0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7];

function nearest(list: number[], value: number): number {
  let best = 0;
  list.forEach((x, i) => {
    if (Math.abs(x - value) < Math.abs(list[best]! - value)) best = i;
  });
  return best;
}

// panel makes the knobs of settings. changed is called after the settings have changed. below, if any,
// stands below ε and the interval: what they cost.
export function panel(
  title: string, id: string, about: About, settings: Settings, changed: () => void, below: HTMLElement | null = null,
): HTMLElement {
  const mechanism = make("select", { id: `${id}-mechanism` });
  for (const name of ["codebook", "lattice", "pim", "knorm", "laplace", "laplace-tight"]) {
    if (about.mechanisms.includes(name)) {
      mechanism.append(make("option", { value: name }, mechanisms[name] ?? name));
    }
  }
  mechanism.value = settings.mechanism;

  const slide = (name: string, list: number[], value: number, say: (x: number) => string, set: (x: number) => void) => {
    const input = make("input", {
      type: "range", id: `${id}-${name}`, min: "0", max: String(list.length - 1), step: "1",
      value: String(nearest(list, value)),
    });
    const output = make("output", { for: `${id}-${name}` }, say(value));
    const read = () => list[Number(input.value)]!;
    const speak = () => {
      output.textContent = say(read());
      input.setAttribute("aria-valuetext", say(read()));
    };
    speak();
    let waiting: ReturnType<typeof setTimeout>;
    const apply = () => {
      clearTimeout(waiting);
      set(read());
      changed();
    };
    input.addEventListener("input", () => {
      speak();
      clearTimeout(waiting);
      waiting = setTimeout(apply, 150); // the picture follows the hand
    });
    input.addEventListener("change", apply);
    return make("div", { class: "row" }, input, output);
  };

  const delta = make("label", {}, "δ: expectation that may stay outside the set",
    slide("delta", deltas, settings.delta, String, (x) => (settings.delta = x)));
  const near = make("select", { id: `${id}-near` },
    make("option", { value: "0" }, "at most e^ε, as for any two places"),
    make("option", { value: "2" }, "at most the factor 2"),
    make("option", { value: "1.5" }, "at most the factor 1.5"));
  near.value = String(settings.near_factor);
  const nearLabel = make("label", {}, "Odds of two places within 340 m change by", near);
  const relevant = () => {
    delta.hidden = settings.mechanism === "codebook";
    nearLabel.hidden = settings.mechanism !== "codebook";
  };
  relevant();
  mechanism.addEventListener("change", () => {
    settings.mechanism = mechanism.value;
    relevant();
    changed();
  });
  near.addEventListener("change", () => {
    settings.near_factor = Number(near.value);
    settings.near_km = settings.near_factor ? 0.34 : 0;
    changed();
  });

  const cells = about.cells_m.length > 0
    ? make("label", {}, "Side of a cell", make("select", { id: `${id}-cell` },
      ...about.cells_m.map((m) => make("option", { value: String(m) }, metres(m / 1000)))))
    : null;
  const select = cells?.querySelector("select");
  if (select) {
    select.value = String(settings.cell_m || 250);
    select.addEventListener("change", () => {
      settings.cell_m = Number(select.value);
      changed();
    });
  }
  const again = make("button", { type: "button", id: `${id}-again` }, "Draw again");
  again.title = "The same reports with another seed of the noise";
  again.addEventListener("click", () => {
    settings.seed++;
    changed();
  });
  return make("section", { class: "card", "aria-label": title },
    make("h2", {}, title),
    make("div", { class: "knobs" },
      make("label", {}, "ε: how much one release may tell",
        slide("epsilon", epsilons, settings.epsilon, (x) => `ε = ${sum(x)}`, (x) => (settings.epsilon = x))),
      make("label", {}, "A new release at most every",
        slide("interval", [1, 2, 4, 10, 20], settings.interval,
          (n) => (n === 1 ? "step" : `${n} steps`), (n) => (settings.interval = n))),
      below,
      make("div", { class: "pair" }, make("label", {}, "Mechanism", mechanism), cells),
      delta, nearLabel,
      make("div", { class: "row" }, again,
        make("span", { class: "small soft" }, "with other noise: here it has a seed"))));
}
