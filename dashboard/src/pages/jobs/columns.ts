// The columns of the list of jobs: which there are, which are chosen, and which fit into the window.
import { isMetric, metricTitle } from "../../display/metrics.ts";

export interface Column {
  id: string;
  title: string;
  /** Its width in pixels; the name takes what the others leave, and this is its least. */
  width: number;
  /** Its width in a window as narrow as a phone's. */
  narrowWidth?: number;
  /** The field or the metric of the API's `sort`. */
  sort?: string;
  isNumber?: boolean;
  /** Whether it shows the time since what the list is sorted by. */
  showsTimeSince?: boolean;
}

/** The metric that the list is sorted or filtered by. */
export const LISTED_METRIC = "metric";
const METRIC_PX = 116;
const SELECT_PX = 36;
const BORDERS_PX = 2;
export const NARROW_PX = 600;

export const COLUMNS: readonly Column[] = [
  { id: "name", title: "Name", width: 200, narrowWidth: 106, sort: "name" },
  { id: "state", title: "State", width: 116, narrowWidth: 110 },
  { id: "progress", title: "Progress", width: 124, narrowWidth: 96 },
  { id: LISTED_METRIC, title: "Metric", width: METRIC_PX, isNumber: true },
  { id: "loss", title: "Loss", width: 84, isNumber: true },
  { id: "examples_per_s", title: "Examples/s", width: 100, isNumber: true },
  { id: "policy", title: "Policy", width: 130 },
  { id: "labels", title: "Labels", width: 160 },
  { id: "age", title: "Age", width: 76, sort: "created_at", isNumber: true, showsTimeSince: true },
  { id: "updated", title: "Updated", width: 84, sort: "updated_at", isNumber: true, showsTimeSince: true },
  { id: "duration", title: "Duration", width: 100, isNumber: true },
  { id: "step", title: "Steps", width: 84, isNumber: true },
  { id: "skipped", title: "Skipped", width: 76, isNumber: true },
  { id: "loss_scale", title: "Loss scale", width: 92 },
  { id: "model", title: "Model", width: 96 },
  { id: "priority", title: "Priority", width: 76, sort: "priority", isNumber: true },
  { id: "queue", title: "Queue", width: 110 },
  { id: "attempt", title: "Attempt", width: 76, isNumber: true },
  { id: "worker", title: "Worker", width: 130 },
  { id: "created_by", title: "Created by", width: 110 },
  { id: "project", title: "Project", width: 110 },
  { id: "id", title: "ID", width: 126 },
];
export const DEFAULT_COLUMNS: readonly string[] = COLUMNS.slice(0, 9).map(({ id }) => id);
const BY_ID = new Map(COLUMNS.map((column) => [column.id, column]));

/** The ids of the columns to show; unknown ones, as of another version, are left out, and the name is always there. */
export function chosenIds(ids: readonly string[]): readonly string[] {
  if (ids.length === 0) return DEFAULT_COLUMNS;
  const chosen = ids.includes("name") ? ids : ["name", ...ids];
  return [...new Set(chosen)].filter((id) => BY_ID.has(id) || isMetric(id));
}

/** The columns with these ids, each once. */
export function columnsOf(ids: readonly string[], metric: string): Column[] {
  const unique = new Map(ids.map((id) => resolve(id, metric)).filter((column) => column !== null).map((column) => [column.id, column]));
  return [...unique.values()];
}

function resolve(id: string, metric: string): Column | null {
  const name = id === LISTED_METRIC ? metric : id;
  return isMetric(name) ? { id: name, title: metricTitle(name), width: METRIC_PX, sort: name, isNumber: true } : (BY_ID.get(name) ?? null);
}

/** The columns that fit into a width, from left to right, and those that do not. */
export function fittingColumns(columns: readonly Column[], widthPx: number): { shown: Column[]; hidden: Column[] } {
  const name = columns.find(({ id }) => id === "name");
  let room = widthPx - SELECT_PX - BORDERS_PX - (name ? columnPx(name, widthPx) : 0);
  const [shown, hidden]: [Column[], Column[]] = [[], []];
  for (const column of columns) {
    const needed = column === name ? 0 : columnPx(column, widthPx);
    (needed <= room ? shown : hidden).push(column);
    if (needed <= room) room -= needed;
  }
  return { shown, hidden };
}

/** The width of a column in a table of this width; the name may be wider. */
export function columnPx(column: Column, widthPx: number): number {
  return widthPx < NARROW_PX ? (column.narrowWidth ?? column.width) : column.width;
}

/** The ids with one of them moved by a place; at an end it stays. */
export function moved(ids: readonly string[], id: string, by: -1 | 1): string[] {
  const place = ids.indexOf(id);
  const next = [...ids];
  const target = place + by;
  if (place < 0 || target < 0 || target >= ids.length) return next;
  next.splice(place, 1);
  next.splice(target, 0, id);
  return next;
}

/** The order after a click on the heading of a column: text from A, all else the highest or newest first. */
export function nextSort(column: Column, sort: string): string {
  if (column.sort === undefined) return sort;
  const [ascending, descending] = [column.sort, `-${column.sort}`];
  if (sort === ascending) return descending;
  if (sort === descending) return ascending;
  return column.sort === "name" ? ascending : descending;
}

/** How the values of a column are sorted, for `aria-sort`; undefined if the list has another order. */
export function sortDirection(column: Column, sort: string): "ascending" | "descending" | undefined {
  if (column.sort === undefined || sort.replace(/^-/, "") !== column.sort) return undefined;
  return sort.startsWith("-") === (column.showsTimeSince ?? false) ? "ascending" : "descending";
}
