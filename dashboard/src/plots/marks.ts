// Where skipped steps are marked: so many marks at most, and no skip without one.
import type { Steps } from "../api/types.ts";

export interface Mark {
  first: number;
  last: number; // a step that the mark stands for; others may lie between
  count: number;
}

export type Range = readonly [start: number, end: number];

const SLOTS = 240;

/** Marks for the skipped steps of an answer, those that lie close to each other as one. */
export function marksOf(steps: Steps, range: Range, slots = SLOTS): Mark[] {
  const width = Math.max(1, range[1] - range[0]) / slots;
  const marks = new Map<number, Mark>();
  for (const one of skips(steps)) {
    const slot = Math.floor((one.first - range[0]) / width);
    const mark = marks.get(slot);
    if (mark) Object.assign(mark, { last: one.last, count: mark.count + one.count });
    else marks.set(slot, { ...one });
  }
  return [...marks.values()];
}

/** Words for a mark. */
export function wordsOf(mark: Mark): string {
  const [first, last] = [mark.first.toLocaleString("en"), mark.last.toLocaleString("en")];
  if (mark.count === 1 && mark.first === mark.last) return `Skipped step ${first}`;
  const steps = mark.count === 1 ? "1 skipped step" : `${mark.count.toLocaleString("en")} skipped steps`;
  return `${steps} between ${first} and ${last}`;
}

/** Each skipped step; where there are too many to be told one by one, each point with some. */
function* skips(steps: Steps): Generator<Mark> {
  const told = steps.skipped_steps;
  if (told && told.total === told.steps.length) {
    for (const step of told.steps) yield { first: step, last: step, count: 1 };
    return;
  }
  const data = steps.data as Record<string, (number | boolean)[] | undefined>;
  const [first, count, skipped] = [data["step"] ?? [], data["count"], data["skipped"] ?? []];
  for (const [index, step] of first.entries()) {
    const many = Number(skipped[index] ?? 0);
    const last = Number(step) + Number(count?.[index] ?? 1) - 1;
    if (many > 0) yield { first: Number(step), last, count: many };
  }
}
