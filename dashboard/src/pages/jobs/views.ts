// Saved views of the list of jobs, and the columns chosen last: kept in this browser.
import { observable } from "../../hooks.ts";
import { filtersHref, parseFilters, type Filters } from "./filters.ts";
import { parseRoute } from "../../router.ts";

export interface View {
  name: string;
  /** The query of its address. */
  query: string;
}

const VIEWS_KEY = "ampcore-job-views";
const COLUMNS_KEY = "ampcore-job-columns";
export const MAX_VIEW_NAME = 60;

export const views = observable<readonly View[]>(parseViews(read(VIEWS_KEY)));

/** The views in a stored text; what cannot be read is left out. */
export function parseViews(text: string | null): View[] {
  try {
    const stored: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(stored)) return [];
    return stored.filter((view): view is View => typeof view?.name === "string" && typeof view?.query === "string");
  } catch {
    return [];
  }
}

/** The views with one of this name, sorted by name. */
export function withView(all: readonly View[], view: View): View[] {
  const others = all.filter(({ name }) => name !== view.name);
  return [...others, view].sort((a, b) => a.name.localeCompare(b.name));
}

/** What a view keeps of the list: all but the page, and the name of the view itself. */
export function viewQuery(filters: Filters): string {
  return filtersHref({ ...filters, view: "" }).split("?")[1] ?? "";
}

/** The address of a view. */
export function viewHref({ name, query }: View): string {
  return filtersHref(parseFilters(new URLSearchParams(query)), { view: name });
}

/** Whether the list differs from the view that its address names; false if this browser has no such view. */
export function differsFromView(filters: Filters, all: readonly View[]): boolean {
  const view = all.find(({ name }) => name === filters.view);
  return view !== undefined && viewQuery(parseFilters(new URLSearchParams(view.query))) !== viewQuery(filters);
}

/** Save the list as a view; returns its address. */
export function saveView(name: string, filters: Filters): string {
  const view = { name, query: viewQuery(filters) };
  store(withView(views.get(), view));
  return viewHref(view);
}

export function deleteView(name: string): void {
  store(views.get().filter((view) => view.name !== name));
}

function store(next: readonly View[]): void {
  views.set(next);
  write(VIEWS_KEY, JSON.stringify(next));
}

/** The columns that were chosen last in this browser; none before the first choice. */
export function rememberedColumns(): readonly string[] {
  return (read(COLUMNS_KEY) ?? "").split(",").filter((id) => id !== "");
}

export function rememberColumns(ids: readonly string[]): void {
  write(COLUMNS_KEY, ids.join(","));
}

/** The address with the remembered columns, if it names none; null if there is nothing to add. */
export function hrefWithColumns(fragment: string, remembered: readonly string[]): string | null {
  const filters = parseFilters(parseRoute(fragment).query);
  return filters.columns.length > 0 || remembered.length === 0 ? null : filtersHref(filters, { columns: remembered });
}

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, text: string): void {
  try {
    if (text === "") localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // Without storage a choice lasts until the page is reloaded.
  }
}
