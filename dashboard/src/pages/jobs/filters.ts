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
  /** Whether each job of a study is a row, instead of the study. */
  allJobs: boolean;
  /** The id of a study whose jobs alone are listed. */
  study: string;
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
    allJobs: text("all_jobs") === "true",
    study: text("study"),
    sort: text("sort") || NEWEST,
    cursor: text("cursor"),
  };
}

/** The address of the list; a change of filters goes back to the first page. */
export function filtersHref(filters: Filters, changes: Partial<Filters> = {}): string {
  const { states, labels, metrics, explanations, allJobs, sort, ...texts } = { ...filters, cursor: "", ...changes };
  return routeHref(["jobs"], {
    state: states, label: labels, metric: metrics, explanations: flag(explanations), all_jobs: flag(allJobs), ...texts, sort: sort === NEWEST ? "" : sort,
  });
}

/** The API path of the list: with a row for each study, unless its jobs are asked for. */
export function jobsPath(filters: Filters): string {
  const { states, labels, metrics, explanations, allJobs, ...texts } = filters;
  const folds = flag(!allJobs && !filters.study);
  return `/jobs?${queryString({ limit: PAGE, state: states, label: labels, metric: metrics, explanations: flag(explanations), fold_studies: folds, ...texts })}`;
}

/** The API path of the jobs of a study that match the other filters, in the order of the list. */
export function studyJobsPath(filters: Filters, study: string): string {
  return jobsPath({ ...filters, study, cursor: "" });
}

function flag(on: boolean): string {
  return on ? "true" : "";
}

export function hasFilters(filters: Filters): boolean {
  const { states, labels, metrics, q, policy, model, study, explanations, allJobs } = filters;
  return states.length + labels.length + metrics.length > 0 || q + policy + model + study !== "" || explanations || allJobs;
}

/** The metric that the list is about: that of its order, else of its first condition, else the loss. */
export function listedMetric({ sort, metrics }: Filters): string {
  const names = [sort.replace(/^-/, ""), ...metrics.map((condition) => condition.split(/[<>=]/)[0]!.trim())];
  return names.find(isMetric) ?? VALIDATION_LOSS;
}
