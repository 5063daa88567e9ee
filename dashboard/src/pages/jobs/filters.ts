// What the list of jobs is narrowed down to, as the address says it and as the API is asked.
import { fragmentOf, queryOf } from "../../address.ts";

export interface Filters {
  states: readonly string[];
  labels: readonly string[];
  q: string;
  policy: string;
  model: string;
  sort: string;
  cursor: string;
}

export const PAGE = 50;
const NEWEST = "-created_at";

export function filtersOf(query: URLSearchParams): Filters {
  const text = (name: string) => query.get(name) ?? "";
  return {
    states: query.getAll("state"),
    labels: query.getAll("label"),
    q: text("q"),
    policy: text("policy"),
    model: text("model"),
    sort: text("sort") || NEWEST,
    cursor: text("cursor"),
  };
}

/** The address of the list; a page of other filters begins at the first job. */
export function addressOf(filters: Filters, changes: Partial<Filters> = {}): string {
  const { states, labels, sort, ...texts } = { ...filters, cursor: "", ...changes };
  return fragmentOf(["jobs"], { state: states, label: labels, ...texts, sort: sort === NEWEST ? "" : sort });
}

/** What the API is asked for. */
export function listingOf(filters: Filters): string {
  const { states, labels, ...texts } = filters;
  return `/jobs?${queryOf({ limit: PAGE, state: states, label: labels, ...texts })}`;
}

export function isNarrowed(filters: Filters): boolean {
  const { states, labels, q, policy, model } = filters;
  return states.length + labels.length > 0 || q + policy + model !== "";
}
