// The scale of the plots of intervals: one for all policies of a study, with 0 in the middle.

const USED = 0.95;

/** Maps a difference to a position from 0 to `width`. */
export function intervalScale(intervals: readonly (readonly number[])[], halfWidth: number, width: number): (value: number) => number {
  const largest = Math.max(halfWidth, ...intervals.flat().map(Math.abs)) || 1;
  return (value) => (width / 2) * (1 + (USED * value) / largest);
}
