// The filters of the list of jobs, in the address of the page and in the API's query.
import { isMetric, VALIDATION_LOSS } from "../../display/metrics.ts";
import { routeHref, queryString } from "../../router.ts";

export interface Filters {
  states: readonly string[];
  labels: readonly string[];
  /** Conditions on metrics, as val_accuracy>=0.9. */
  metrics: readonly string[];
  q: string;
  policy: string;
  model: string;
  /** Whether jobs that explain a step of another job are listed too. */
  explanations: boolean;
  sort: string;
  cursor: string;
}

export const PAGE = 50;
const NEWEST = "-created_at";

export function parseFilters(query: URLSearchParams): Filters {
  const text = (name: string) => query.get(name) ?? "";
  return {
    states: query.getAll("state"),
    labels: query.getAll("label"),
    metrics: query.getAll("metric"),
    q: text("q"),
    policy: text("policy"),
    model: text("model"),
    explanations: text("explanations") === "true",
    sort: text("sort") || NEWEST,
    cursor: text("cursor"),
  };
}

/** The address of the list; a change of filters goes back to the first page. */
export function filtersHref(filters: Filters, changes: Partial<Filters> = {}): string {
  const { states, labels, metrics, explanations, sort, ...texts } = { ...filters, cursor: "", ...changes };
  return routeHref(["jobs"], {
    state: states, label: labels, metric: metrics, explanations: flag(explanations), ...texts, sort: sort === NEWEST ? "" : sort,
  });
}

/** The API path of the list. */
export function jobsPath(filters: Filters): string {
  const { states, labels, metrics, explanations, ...texts } = filters;
  return `/jobs?${queryString({ limit: PAGE, state: states, label: labels, metric: metrics, explanations: flag(explanations), ...texts })}`;
}

function flag(on: boolean): string {
  return on ? "true" : "";
}

export function hasFilters(filters: Filters): boolean {
  const { states, labels, metrics, q, policy, model, explanations } = filters;
  return states.length + labels.length + metrics.length > 0 || q + policy + model !== "" || explanations;
}

/** The metric that the list is about: that of its order, else of its first condition, else the loss. */
export function listedMetric({ sort, metrics }: Filters): string {
  const names = [sort.replace(/^-/, ""), ...metrics.map((condition) => condition.split(/[<>=]/)[0]!.trim())];
  return names.find(isMetric) ?? VALIDATION_LOSS;
}
