// The list of jobs as its address says: filters, order, columns, view and page; and as the API's query.
import { isMetric, VALIDATION_LOSS } from "../../display/metrics.ts";
import { currentRoute, routeHref, queryString } from "../../router.ts";
import { createdBounds } from "./dates.ts";

export interface Filters {
  states: readonly string[];
  labels: readonly string[];
  /** Conditions on metrics, as val_accuracy>=0.9. */
  metrics: readonly string[];
  q: string;
  policy: string;
  model: string;
  /** A range of days that ends today, as 7d; empty: any time, or from `from` to `to`. */
  created: string;
  /** The first and the last day, as 2026-01-31. */
  from: string;
  to: string;
  /** Whether jobs that explain a step of another job are listed too. */
  explanations: boolean;
  /** Whether each job of a study is a row, instead of the study. */
  allJobs: boolean;
  /** The id of a study whose jobs alone are listed. */
  study: string;
  sort: string;
  /** The ids of the columns; none if the address does not name them. */
  columns: readonly string[];
  /** The name of the saved view that the address comes from. */
  view: string;
  cursor: string;
}

export const PAGE = 50;
export const NEWEST = "-created_at";

export function parseFilters(query: URLSearchParams): Filters {
  const text = (name: string) => query.get(name) ?? "";
  return {
    states: query.getAll("state"),
    labels: query.getAll("label"),
    metrics: query.getAll("metric"),
    q: text("q"),
    policy: text("policy"),
    model: text("model"),
    created: text("created"),
    from: text("from"),
    to: text("to"),
    explanations: text("explanations") === "true",
    allJobs: text("all_jobs") === "true",
    study: text("study"),
    sort: text("sort") || NEWEST,
    columns: text("columns").split(",").filter((id) => id !== ""),
    view: text("view"),
    cursor: text("cursor"),
  };
}

/** The filters of the address, which may be newer than those of the last render. */
export function currentFilters(): Filters {
  return parseFilters(currentRoute().query);
}

/** The address of the list; a change of filters goes back to the first page, one of columns does not. */
export function filtersHref(filters: Filters, changes: Partial<Filters> = {}): string {
  const cursor = "columns" in changes && Object.keys(changes).length === 1 ? filters.cursor : "";
  const next = { ...filters, cursor, ...changes };
  return routeHref(["jobs"], {
    state: next.states, label: next.labels, metric: next.metrics, q: next.q, policy: next.policy, model: next.model,
    created: next.created, from: next.from, to: next.to, explanations: flag(next.explanations), all_jobs: flag(next.allJobs),
    study: next.study, sort: next.sort === NEWEST ? "" : next.sort, columns: next.columns.join(","), view: next.view, cursor: next.cursor,
  });
}

/** The API path of the list: with a row for each study, unless its jobs are asked for. */
export function jobsPath(filters: Filters, now: Date = new Date(), limit = PAGE): string {
  const { states, labels, metrics, q, policy, model, explanations, allJobs, study, sort, cursor } = filters;
  return `/jobs?${queryString({
    limit, state: states, label: labels, metric: metrics, explanations: flag(explanations), fold_studies: flag(!allJobs && !study),
    q, policy, model, ...createdBounds(filters, now), study, sort, cursor,
  })}`;
}

/** The API path of the jobs of a study that match the other filters, in the order of the list. */
export function studyJobsPath(filters: Filters, study: string, cursor = "", limit = PAGE): string {
  return jobsPath({ ...filters, study, cursor }, new Date(), limit);
}

function flag(on: boolean): string {
  return on ? "true" : "";
}

/** How many filters are set. */
export function filterCount(filters: Filters): number {
  const { states, labels, metrics, q, policy, model, created, from, to, study, explanations, allJobs } = filters;
  const single = [q, policy, model, created || from || to, study, explanations, allJobs];
  return states.length + labels.length + metrics.length + single.filter(Boolean).length;
}

export function hasFilters(filters: Filters): boolean {
  return filterCount(filters) > 0;
}

/** No filter; the columns stay. */
export function withoutFilters(filters: Filters): string {
  return filtersHref({ ...parseFilters(new URLSearchParams()), columns: filters.columns });
}

/** The metric that the list is about: that of its order, else of its first condition, else the loss. */
export function listedMetric({ sort, metrics }: Filters): string {
  const names = [sort.replace(/^-/, ""), ...metrics.map((condition) => condition.split(/[<>=]/)[0]!.trim())];
  return names.find(isMetric) ?? VALIDATION_LOSS;
}
