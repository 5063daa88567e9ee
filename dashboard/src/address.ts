// Where in the dashboard one is: kept in the fragment, so that a link leads there and no server
// needs to know.
import { cell, useCell } from "./cell.ts";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

type Values = Record<string, string | number | readonly string[] | null | undefined>;

/** The place that a fragment such as `#/jobs/4f2a?tab=log` stands for. */
export function placeOf(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
  const names = path.split("/").filter((name) => name !== "");
  return { path: names.map(decoded), query: new URLSearchParams(query) };
}

/** The fragment of a place; what is empty is left out. */
export function fragmentOf(path: readonly string[], values: Values = {}): string {
  const query = queryOf(values);
  return `#/${path.map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

/** A query; a list becomes the same name several times. */
export function queryOf(values: Values): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  return query.toString();
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // a percent sign that stands for itself
  }
}

const current = cell(placeOf(globalThis.location?.hash ?? ""));
globalThis.addEventListener?.("hashchange", () => current.set(placeOf(location.hash)));

export function usePlace(): Place {
  return useCell(current);
}

/** Go somewhere; `replace` leaves no trace of where one was. */
export function go(fragment: string, replace = false): void {
  if (!replace) {
    location.hash = fragment;
    return;
  }
  history.replaceState(null, "", fragment);
  current.set(placeOf(fragment));
}
