// What the pictures say, in words for somebody who has never heard of any of it.

import { Anatomy, Course, Settings } from "./api";
import { distance, likelier, metres, percent, sum, times } from "./look";

// mechanisms are the ways of release, in words.
export const mechanisms: Record<string, string> = {
  codebook: "codebook (the default)",
  lattice: "lattice (near places protected more)",
  pim: "PIM (the paper’s)",
  knorm: "K-norm (the paper’s)",
  laplace: "Laplace (the paper’s)",
  "laplace-tight": "Laplace, tight",
};

// meaning says what ε is, for a person.
export function meaning(epsilon: number): string {
  const factor = times(Math.exp(epsilon));
  const sure = percent(likelier(epsilon));
  return `*What ε = ${sum(epsilon)} means.* One published location changes anybody’s odds between any two ` +
    `places by a factor of at most e^${sum(epsilon)} = *${factor}*. Somebody who thought home and clinic ` +
    `equally likely (50 %) is at most *${sure}* sure of one of them after seeing it. ` +
    `Smaller ε hides more and errs more; costs add up from release to release.`;
}

export interface Part {
  title: string;
  text: string;
}

// parts tell a step in six parts; those that did not happen are left out by their text.
// now is the step itself, and a the one whose release it repeats, or the same.
export function parts(now: Anatomy, a: Anatomy, c: Course, s: Settings): Part[] {
  const who = c.user;
  const released = a.kind === "released";
  const told = (text: string) => (a === now ? text : `${why(now, s)} Here is that release. ${text}`);
  const prior = a.cell_prior === null ? "" : ` It gives the true cell ${percent(a.cell_prior)}.`;
  const none = why(a, s);
  return [
    { title: "All of it at once", text: overview(now, c) },
    {
      title: "Before: what is expected",
      text: a.prior
        ? told(`Nothing new is published yet. From how vehicles move, and from what was published before, anybody ` +
          `can work out where ${who} is likely to be: the darker a cell, the likelier.${prior}`)
        : none,
    },
    { title: s.mechanism === "codebook" ? "What could be published" : "Where it hides", text: released ? told(choices(a)) : none },
    { title: "The draw", text: released ? told(drawn(a, s)) : none },
    {
      title: "What the draw says",
      text: released
        ? told(`Coloured cells are those that the published place speaks for. A cell it speaks for most is ` +
          `*${times(a.likelihood_range)} times* as likely to have led to it as one it speaks for least. The ` +
          `guarantee allows e^ε = ${times(Math.exp(s.epsilon))} and no more, wherever ${who} really is.`)
        : none,
    },
    {
      title: "After: what an observer concludes",
      text: `Expectation times what the draw says: this is all that anybody can know who sees every published ` +
        `record.${estimated(now, c)}`,
    },
  ];
}

function overview(a: Anatomy, c: Course): string {
  const i = a.number;
  if (!a.estimate) return `${c.user} reported a position, and nothing was published for it.`;
  const error = distance(a.estimate, a.truth);
  const blind = { x: c.blind_x[i] ?? NaN, y: c.blind_y[i] ?? NaN };
  const verb = { released: "A new place was drawn and published",
    repeated: "Nothing new was drawn: the last release is given again",
    predicted: "Nothing was drawn: the expectation is published" }[a.kind] ?? "";
  return `${c.user} is really at the round mark, which only you see. ${verb}. From all records so far an observer ` +
    `concludes the coloured region, with the cross as the best guess: *${metres(error)}* from the truth. Without any ` +
    `record the guess would be ${metres(distance(blind, a.truth))} off.`;
}

function choices(a: Anatomy): string {
  if (a.codebook) {
    const n = a.codebook.points.length;
    return `The mechanism lays *${n} code points* (the dots) on the map. They follow from the expectation alone, so they ` +
      `tell nothing. Every cell votes for its nearest code point: the lines are the borders between votes. The true ` +
      `cell lies in the shaded region, which only you see.`;
  }
  if (a.set) {
    const moved = a.set.drift
      ? ` The true cell lies outside. So the nearest cell inside, its *surrogate*, takes its place.`
      : ` The true cell is one of them.`;
    return `The *location set*: the ${a.set.size} likeliest cells, which hold all but δ of the expectation. The line ` +
      `around them is their hull; its size and shape decide the noise.${moved}`;
  }
  return "";
}

function drawn(a: Anatomy, s: Settings): string {
  if (a.codebook) {
    const b = a.codebook;
    const right = b.own === b.drawn;
    const chances = b.own_chance !== null && b.other_chance !== null
      ? `Chance decides. The region of the true cell is drawn with *${percent(b.own_chance)}*, each other one with ` +
        `*${percent(b.other_chance)}*: the first is e^${sum(s.epsilon)} times the second.`
      : `Chance decides, with a border between votes that is blurred by secret noise.`;
    return `${chances} This time the filled diamond was drawn: ${right ? "it is the true cell’s own" : "it is *not* the true cell’s own"}. ` +
      `An observer cannot know which of the two happened.`;
  }
  if (a.set && a.release) {
    const off = distance(a.release, a.set.surrogate);
    return `Noise in the shape of the hull is added to the true place. The published place, the diamond, is ` +
      `*${metres(off)}* away. The noise is as wide as is needed so that any other cell of the set could have led to it too.`;
  }
  return "";
}

function estimated(a: Anatomy, c: Course): string {
  if (!a.estimate) return "";
  const inside = distance(a.estimate, a.truth) <= a.radius_km;
  return ` The cross is the best guess; the dashed circle of *${metres(a.radius_km)}* holds 95 % of the belief ` +
    `(${inside ? "and the truth, this time" : "not the truth, this time"}), the ellipse shows its direction. ` +
    `So far ${c.user} has spent Σε = ${sum(a.spent)}.`;
}

// why says why there is no draw.
function why(a: Anatomy, s: Settings): string {
  switch (a.kind) {
    case "repeated":
      return "This report comes in a step that has a release already. The release is given again, which costs nothing and tells nothing new.";
    case "predicted":
      return s.interval > 1
        ? `Only every ${s.interval}th step may have a release. In between the expectation is published, which costs nothing.`
        : "A draw would tell nothing here: there is one place only that could be published. So the expectation is published, which costs nothing.";
    case "late":
      return "This report is older than the last one. Nothing is published for it.";
    case "refused":
      return "The service refuses this report: it lies outside the map, or cannot be a position. Nothing is published for it.";
  }
  return "Nothing is drawn here.";
}
