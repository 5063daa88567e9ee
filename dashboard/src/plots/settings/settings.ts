// What a person has set for plots, as parameters of the address, so that a link shows the same plots.

export const X_KINDS = ["step", "epoch", "time", "examples"] as const;
export type XKind = (typeof X_KINDS)[number];
/** A limit of an axis; null where the values decide. */
export type Limits = readonly [low: number | null, high: number | null];

export interface PlotSettings {
  x: XKind;
  /** The weight of the smoothed value before; 0 does not smooth. */
  smoothing: number;
  /** Number of plots beside each other; 0: as many as fit. */
  columns: number;
  /** The keys of the panels with a logarithmic y axis. */
  logarithmic: readonly string[];
  /** The limits of the y axis, by the key of the panel. */
  limits: ReadonlyMap<string, Limits>;
  /** The keys of the panels in their order; null: those of the data. */
  panels: readonly string[] | null;
}

export const MAX_SMOOTHING = 0.99;
export const MAX_COLUMNS = 3;
/** The parameters of the address that `settingsQuery` writes. */
type SettingsQuery = Record<"x" | "smooth" | "columns", string | number> & Record<"log" | "y" | "panel", readonly string[]>;

/** The settings of an address; what cannot be read is as if it were not there. */
export function parseSettings(query: URLSearchParams): PlotSettings {
  const panels = query.getAll("panel");
  return {
    x: X_KINDS.find((kind) => kind === query.get("x")) ?? "step",
    smoothing: numberIn(query.get("smooth"), 0, MAX_SMOOTHING) ?? 0,
    columns: Math.round(numberIn(query.get("columns"), 0, MAX_COLUMNS) ?? 0),
    logarithmic: query.getAll("log"),
    limits: new Map(query.getAll("y").flatMap(parseLimits)),
    panels: panels.length > 0 ? panels : null,
  };
}

/** The settings for an address; those that say nothing are left out by `queryString`. */
export function settingsQuery(settings: PlotSettings): SettingsQuery {
  return {
    x: settings.x === "step" ? "" : settings.x,
    smooth: settings.smoothing || "",
    columns: settings.columns || "",
    log: settings.logarithmic,
    y: [...settings.limits].map(([key, [low, high]]) => `${low ?? ""}:${high ?? ""}:${key}`),
    panel: settings.panels ?? [],
  };
}

/** With the logarithmic axis of a panel switched. */
export function toggleLogarithmic({ logarithmic }: PlotSettings, key: string): Partial<PlotSettings> {
  return { logarithmic: logarithmic.includes(key) ? logarithmic.filter((other) => other !== key) : [...logarithmic, key] };
}

/** With the limits of a panel's y axis; without limits the values decide again. */
export function withLimits(settings: PlotSettings, key: string, [low, high]: Limits): Partial<PlotSettings> {
  const limits = new Map(settings.limits);
  limits.delete(key);
  if (isRange(low, high)) limits.set(key, [low, high]);
  return { limits };
}

/** The keys with one of them moved by a number of places. */
export function moved(keys: readonly string[], key: string, by: number): readonly string[] {
  const at = keys.indexOf(key);
  const to = Math.min(keys.length - 1, Math.max(0, at + by));
  return at < 0 ? keys : keys.toSpliced(at, 1).toSpliced(to, 0, key);
}

/** A number that a person typed; null for an empty field, and for what is no number. */
export function typedNumber(text: string): number | null {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? null : value;
}

/** `low:high:key`, each limit empty where the values decide; a key may contain colons. */
function parseLimits(text: string): [string, Limits][] {
  const parts = /^([^:]*):([^:]*):(.+)$/s.exec(text);
  if (!parts) return [];
  const [low, high] = [typedNumber(parts[1]!), typedNumber(parts[2]!)];
  return isRange(low, high) ? [[parts[3]!, [low, high]]] : [];
}

function isRange(low: number | null, high: number | null): boolean {
  return low === null ? high !== null : high === null || low < high;
}

function numberIn(text: string | null, low: number, high: number): number | null {
  const value = typedNumber(text ?? "");
  return value === null ? null : Math.min(high, Math.max(low, value));
}
