// Formats numbers, times and sizes, by the rule of docs/reference/numbers.md, which ampctl has, too; a
// missing value is a dash.
import type { Numeric } from "../api/types.ts";

export const MISSING = "–";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const SMALLEST_PLAIN = 1e-4;
const SMALLEST_SCIENTIFIC = 1e9;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

type Maybe<T> = T | null | undefined;

/** A number of the API, which writes non-finite ones as strings. */
export function numberOf(value: Maybe<Numeric | string>): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}

/** Four significant digits, but all digits of the integer part: 0.01235, 123,456, 1.235e-7. */
export function number(value: Maybe<Numeric | string>, digits = 4): string {
  const plain = numberOf(value);
  if (plain === null) return MISSING;
  if (!Number.isFinite(plain)) return Number.isNaN(plain) ? "NaN" : plain > 0 ? "∞" : "-∞";
  const size = Math.abs(plain);
  if (size === 0) return "0";
  const isPlain = size >= SMALLEST_PLAIN && size < SMALLEST_SCIENTIFIC;
  const text = isPlain ? withThousands(plainDigits(size, digits)) : size.toExponential(digits - 1).replace(/\.?0*e\+?/, "e");
  return plain < 0 ? `-${text}` : text;
}

/** Rounded as Python's decimals of the exact value: toLocaleString rounds the shortest decimal form. */
function plainDigits(size: number, digits: number): string {
  const integerDigits = size < 1 ? 0 : String(Math.trunc(size)).length;
  return integerDigits >= digits ? size.toFixed(0) : String(Number(size.toPrecision(digits)));
}

function withThousands(text: string): string {
  const [integers = "", decimals] = text.split(".");
  const grouped = integers.replace(/\B(?=(\d{3})+$)/g, ",");
  return decimals === undefined ? grouped : `${grouped}.${decimals}`;
}

/** An integer with thousands: 1,234. */
export function integer(value: Maybe<number>): string {
  if (value === null || value === undefined) return MISSING;
  const text = withThousands(Math.abs(value).toFixed(0));
  return value < 0 && text !== "0" ? `-${text}` : text;
}

/** A factor with three significant digits: 1.71 ×. */
export function factor(value: Maybe<Numeric | string>): string {
  return value === null || value === undefined ? MISSING : `${number(value, 3)} ×`;
}

/** An integer that was estimated, not measured: ≈ 1,432. */
export function estimated(value: Maybe<number>): string {
  return value === null || value === undefined ? MISSING : `≈ ${integer(value)}`;
}

/** A share from 0 to 1; a small one never reads 0 %, and only 1 reads 100 %. */
export function percent(share: Maybe<number>): string {
  if (share === null || share === undefined) return MISSING;
  if (share < 0) return `-${percent(-share)}`;
  const value = share * 100;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${Number(value.toFixed(value < 10 ? 2 : 1))} %`;
}

/** A loss scale, as a power of two if it is one. */
export function lossScale(value: Maybe<Numeric | string>): string {
  const plain = numberOf(value);
  if (plain === null || !(plain > 0) || !Number.isFinite(plain)) return number(value);
  const exponent = Math.log2(plain);
  const nearest = Math.round(exponent);
  // The API writes as many digits as a float32 needs: 2⁴⁰ as 1.0995116e12.
  return Math.abs(exponent - nearest) < 1e-6 ? power(nearest) : number(plain);
}

const HEALTH_TEXTS: Readonly<Record<string, string>> = {
  "pinned at the floor": "at minimum scale",
  "pinned at the cap": "at maximum scale",
};

/** The health of a loss scale, as text. */
export function scaleHealth(value: Maybe<string>): string {
  return HEALTH_TEXTS[value ?? ""] ?? value ?? "";
}

/** For example 2²⁴. */
export function power(exponent: number): string {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[Number(digit)]);
  return `2${exponent < 0 ? "⁻" : ""}${digits.join("")}`;
}

/** 4.2 s, 3 min 05 s, 1 h 04 min, 2 d 3 h. */
export function duration(seconds: Maybe<number>): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return MISSING;
  if (seconds < 1) return `${number(Math.max(0, seconds) * 1000, 2)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const all = Math.floor(seconds + 0.5);
  const [days, hours, minutes] = [Math.floor(all / 86_400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${pad2(minutes)} min`;
  return minutes > 0 ? `${minutes} min ${pad2(all % 60)} s` : `${all} s`;
}

/** The time since then, in one unit. */
export function age(dateTime: Maybe<string>, now: number): string {
  if (!dateTime) return MISSING;
  const seconds = Math.max(0, (now - Date.parse(dateTime)) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Date and time in the local time zone. */
export function dateTime(text: Maybe<string>): string {
  if (!text) return MISSING;
  const at = new Date(text);
  const day = `${at.getFullYear()}-${pad2(at.getMonth() + 1)}-${pad2(at.getDate())}`;
  return `${day} ${pad2(at.getHours())}:${pad2(at.getMinutes())}:${pad2(at.getSeconds())}`;
}

export function bytes(size: Maybe<number>): string {
  if (size === null || size === undefined) return MISSING;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const text = size.toFixed(size < 10 && unit > 0 ? 1 : 0);
  return `${withThousands(text.replace(/\.0$/, ""))} ${UNITS[unit]}`;
}

/** A large count in compact notation: 1.2B, 340K. */
export function compact(value: Maybe<number>): string {
  if (value === null || value === undefined) return MISSING;
  return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
}

function pad2(value: number): string {
  return String(value).padStart(2, "0");
}

/** The label of an axis of steps; positions between two steps have none. */
export function stepLabel(value: number): string {
  return Number.isInteger(value) ? integer(value) : "";
}
