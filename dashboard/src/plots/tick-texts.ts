// The texts of the ticks of a y axis.
import { number, power } from "../display/format.ts";

const MIN_DIGITS = 3;
const MAX_DIGITS = 7;
const COMPACT_FROM = 10_000;

/** Texts with as many digits as the ticks have: 12,500 is 12.5K beside 10K, and not 13K. */
export function tickFormatter(ticks: readonly (number | null)[], isLossScale: boolean): (value: number) => string {
  let digits = MIN_DIGITS;
  while (digits < MAX_DIGITS && !ticks.every((tick) => tick === null || isWritten(tick, digits))) digits += 1;
  return (value) => {
    const exponent = Math.log2(value);
    if (isLossScale) return Number.isInteger(exponent) ? power(exponent) : number(value, MIN_DIGITS);
    if (Math.abs(value) < COMPACT_FROM) return number(value, digits);
    return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: digits });
  };
}

/** Whether so many digits are all of a number, but for rounding errors. */
function isWritten(value: number, digits: number): boolean {
  return Math.abs(Number(value.toPrecision(digits)) - value) <= 1e-9 * Math.abs(value);
}
