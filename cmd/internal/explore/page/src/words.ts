// What the pictures say, in words for somebody who has never heard of any of it.

import { Anatomy, Course, Settings } from "./api";
import { distance, likelier, metres, percent, raised, sum } from "./look";

// mechanisms are the ways of release, in words.
export const mechanisms: Record<string, string> = {
  codebook: "codebook (default)",
  lattice: "lattice (protects near places more)",
  pim: "PIM (the paper’s)",
  knorm: "K-norm (the paper’s)",
  laplace: "Laplace (the paper’s)",
  "laplace-tight": "Laplace, tight",
};

// meaning says what ε is, for a person.
export function meaning(epsilon: number): string {
  return `*What ε = ${sum(epsilon)} means.* Each release has a price, ε. One release changes anybody’s odds between any two places by a ` +
    `factor of at most e^${sum(epsilon)} = *${raised(epsilon)}*, whatever somebody knew before. Somebody who thought home and ` +
    `clinic equally likely is at most *${percent(likelier(epsilon))}* sure of either after it. Prices add up: a budget limits a day.`;
}

// toWhom says what the releases of a trace mean for the person whose trace it is, and with the truth
// how far off an observer is.
export function toWhom(c: Course, truth: boolean): string {
  const { releases, spent, estimate_m, blind_m } = c.summary;
  const unlimited = c.settings.budget === 0 || c.settings.budget > 20;
  const trace = `*What it means for somebody who rides in ${c.user}.* The ${c.done < c.total ? "computed part of the" : "whole"} trace has`;
  if (releases === 0) return `${trace} no release, so nothing was learned.`;
  return `${trace} ${releases === 1 ? "one release" : `${releases} releases`}, ` +
    `and their prices add up to Σε = ${sum(spent)}${spent > 20 && unlimited ? ", which protects hardly anybody: set a budget" : ""}.` +
    (truth ? ` The best guess of anybody who has all records is *${metres(estimate_m.median / 1000)}* from the truth ` +
      `in the median, by the model alone *${metres(blind_m.median / 1000)}*.` : "");
}

export interface Part { title: string; text: string }

// parts tell a step in six parts; those that did not happen are left out by their text.
// now is the step itself, and a the one whose release it repeats, or the same. Without the truth they
// say what everybody may know.
export function parts(now: Anatomy, a: Anatomy, c: Course, s: Settings, truth: boolean): Part[] {
  const who = c.user;
  const released = a.kind === "released";
  const told = (text: string) => (a === now ? text : `${why(now, s)} Here is that release. ${text}`);
  const prior = a.cell_prior === null || !truth ? "" : ` It gives the true cell ${percent(a.cell_prior)}.`;
  const none = why(a, s);
  return [
    { title: "All at once", text: overview(now, c, truth) },
    {
      title: "Expected",
      text: a.prior
        ? told(`Nothing new is published yet. Anybody can work out where ${who} is likely to be, from how vehicles move ` +
          `and from what was published before. This expectation is the *prior*. The stronger the colour of a cell, the ` +
          `likelier it is.${prior}`)
        : none,
    },
    { title: s.mechanism === "codebook" ? "Could be published" : "Where it hides", text: released ? told(choices(a, truth)) : none },
    { title: "The draw", text: released ? told(drawn(a, s, truth)) : none },
    {
      title: "What it says",
      text: released
        ? told(`The *likelihood* of a cell is the probability of this very draw if ${who} is in that cell. The stronger ` +
          `the colour of a cell, the larger it is. The largest is *${raised(Math.log(a.likelihood_range))} times* the least. The ` +
          `guarantee allows a factor of e^ε = ${raised(s.epsilon)} and no more, wherever ${who} really is.`)
        : none,
    },
    {
      title: "Concluded",
      text: `The *posterior* is the prior times the likelihood. It is all that the published records and the public ` +
        `model tell about where ${who} is.${estimated(now, truth)}`,
    },
  ];
}

function overview(a: Anatomy, c: Course, truth: boolean): string {
  const i = a.number;
  if (!a.estimate) return `${c.user} reported a position, and nothing was published for it.`;
  const blind = { x: c.blind_x[i] ?? NaN, y: c.blind_y[i] ?? NaN };
  const verb = { repeated: " Nothing new was drawn: the last release is published again.",
    predicted: " Nothing was drawn: the model moves the last guess on." }[a.kind] ?? "";
  const published = `${verb} Anybody who has all records so far believes it to be in the coloured cells.`;
  if (!truth) return `*What leaves the fleet’s owner about ${c.user} is the blue cross*, and the circle around it, which holds 95 % of the belief.${published}`;
  return `*${c.user} is really at the red dot, which only you see. What leaves the fleet’s owner is the blue cross, ` +
    `${metres(distance(a.estimate, a.truth))} off*, and the circle around it.${published} ` +
    `By the model alone the guess would be ${metres(distance(blind, a.truth))} off.`;
}

function choices(a: Anatomy, truth: boolean): string {
  if (a.codebook) {
    const n = a.codebook.points.length;
    return `The mechanism lays *${n} code points* (the dots) on the map. They follow from the prior alone, so they ` +
      `tell nothing new. Every cell votes for its nearest code point. The lines are the borders between votes.` +
      (truth ? " The true cell lies in the shaded region, which only you see." : "");
  }
  if (a.set) {
    const moved = !truth ? "" : a.set.drift
      ? ` The true cell lies outside, so the nearest cell inside takes its place: its *surrogate*.`
      : ` The true cell is one of them.`;
    return `The *location set* has the ${a.set.size} likeliest cells. They hold all but δ of the prior. The line ` +
      `around them is their hull. Its size and shape decide the noise.${moved}`;
  }
  return "";
}

function drawn(a: Anatomy, s: Settings, truth: boolean): string {
  if (a.codebook) {
    const b = a.codebook;
    const right = b.own === b.drawn;
    return `Chance decides. The code point of the true cell is drawn with probability *${percent(b.own_chance)}*, each other one ` +
      `with *${percent(b.other_chance)}*. The first probability is e^${sum(s.epsilon)} times the second. This time the filled diamond was drawn.` +
      (truth ? ` It is ${right ? "the true cell’s own" : "*not* the true cell’s own"}, and an observer cannot know that.` : "");
  }
  if (a.set && a.release) {
    const off = distance(a.release, a.set.surrogate);
    return `Noise in the shape of the hull is added to the ${truth && a.set.drift ? "surrogate" : "true place"}. The diamond is the published place` +
      `${truth ? `, *${metres(off)}* away from it` : ""}. The noise is so wide that every other cell of the set could have led to the same place.`;
  }
  return "";
}

function estimated(a: Anatomy, truth: boolean): string {
  if (!a.estimate) return "";
  const inside = truth ? ` The truth lies ${distance(a.estimate, a.truth) <= a.radius_km ? "inside" : "outside"} this time.` : "";
  return ` The cross is the best guess. The dashed circle has a radius of *${metres(a.radius_km)}* and holds 95 % of the ` +
    `belief.${inside} The ellipse shows in which direction the belief is ` +
    `spread. The releases so far cost Σε = ${sum(a.spent)}.`;
}

// why says why there is no draw.
function why(a: Anatomy, s: Settings): string {
  switch (a.kind) {
    case "repeated":
      return "This report comes in a step that has a release already. The release is published again, which costs nothing and tells nothing new.";
    case "predicted":
      return s.interval > 1
        ? `From one release to the next there are at least ${s.interval} steps. In between the prior is published, which costs nothing.`
        : "A draw would tell nothing here: there is one place only that could be published. So the prior is published, which costs nothing.";
    case "late":
      return "This report is older than the last one. Nothing is published for it.";
    case "refused":
      return "The service refuses this report: it lies outside the map, or cannot be a position. Nothing is published for it.";
  }
  return "Nothing is drawn here.";
}
