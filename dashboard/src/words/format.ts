// Numbers, times and sizes as people read them; what is not known is a dash.
import type { Numeric } from "../api/types.ts";

export const NOTHING = "–";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

type Maybe<T> = T | null | undefined;

/** The number that an answer means. */
export function numberOf(value: Maybe<Numeric | string>): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}

/** Four digits that count: 0.01234, 1,234, 1.234e-7. */
export function number(value: Maybe<Numeric | string>, digits = 4): string {
  const plain = numberOf(value);
  if (plain === null) return NOTHING;
  if (!Number.isFinite(plain)) return plain === 0 || Number.isNaN(plain) ? "NaN" : plain > 0 ? "∞" : "−∞";
  const size = Math.abs(plain);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return plain.toExponential(digits - 1).replace("-", "−");
  const options = { maximumSignificantDigits: Math.max(digits, Math.floor(Math.log10(size || 1)) + 1) };
  return plain.toLocaleString("en", options).replace("-", "−");
}

export function whole(value: Maybe<number>): string {
  return value === null || value === undefined ? NOTHING : Math.round(value).toLocaleString("en");
}

/** A share from 0 to 1; what is there never reads 0 %, and what is not all never 100 %. */
export function percent(share: Maybe<number>): string {
  if (share === null || share === undefined) return NOTHING;
  const value = share * 100;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 1 })} %`;
}

/** A loss scale: as a power of two where it is one. */
export function scale(value: Maybe<Numeric | string>): string {
  const plain = numberOf(value);
  if (plain === null || !(plain > 0) || !Number.isFinite(plain)) return number(value);
  const exponent = Math.log2(plain);
  const nearest = Math.round(exponent);
  // A large one comes in the few digits that a float32 needs: 2⁴⁰ as 1.0995116e12.
  return Math.abs(exponent - nearest) < 1e-6 ? power(nearest) : number(plain);
}

/** 2 to that power. */
export function power(exponent: number): string {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[Number(digit)]);
  return `2${exponent < 0 ? "⁻" : ""}${digits.join("")}`;
}

/** 4.2 s, 3 min 05 s, 1 h 04 min, 2 d 3 h. */
export function duration(seconds: Maybe<number>): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  if (seconds < 0.1) return `${number(seconds * 1000, 2)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const all = Math.round(seconds);
  const [days, hours, minutes] = [Math.floor(all / 86_400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${two(minutes)} min`;
  return minutes > 0 ? `${minutes} min ${two(all % 60)} s` : `${all} s`;
}

/** How long ago that was, in one unit. */
export function age(moment: Maybe<string>, now: number): string {
  if (!moment) return NOTHING;
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Day and time here, to the second. */
export function moment(text: Maybe<string>): string {
  if (!text) return NOTHING;
  const at = new Date(text);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function bytes(size: Maybe<number>): string {
  if (size === null || size === undefined) return NOTHING;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toLocaleString("en", { maximumFractionDigits: size < 10 && unit > 0 ? 1 : 0 })} ${UNITS[unit]}`;
}

/** 1.2 G, 340 k: for counts whose digits say nothing. */
export function compact(value: Maybe<number>): string {
  if (value === null || value === undefined) return NOTHING;
  return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** A place on an axis of steps; between two steps there is nothing to say. */
export function stepWords(value: number): string {
  return Number.isInteger(value) ? whole(value) : "";
}
