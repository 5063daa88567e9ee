// Routing by the fragment of the address: links work without any route on the server.
import { observable, useObservable } from "./hooks.ts";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

type QueryValues = Record<string, string | number | readonly string[] | null | undefined>;

/** Parse a fragment such as `#/jobs/4f2a?tab=log`. */
export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
  const names = path.split("/").filter((name) => name !== "");
  return { path: names.map(decodeSegment), query: new URLSearchParams(query) };
}

/** The fragment of a route; empty values are left out. */
export function routeHref(path: readonly string[], values: QueryValues = {}): string {
  const query = queryString(values);
  return `#/${path.map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

/** A query string; a list repeats its name. */
export function queryString(values: QueryValues): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  return query.toString();
}

function decodeSegment(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // a literal percent sign
  }
}

let fragment = globalThis.location?.hash ?? "";
const current = observable(parseRoute(fragment));
globalThis.addEventListener?.("hashchange", update);

function update(): void {
  fragment = location.hash;
  current.set(parseRoute(fragment));
}

export function useRoute(): Route {
  return useObservable(current);
}

/**
 * Go to a fragment; `replace` adds no entry to the browser's history.
 *
 * A route is not replaced once the browser has left it, as by a link: the event that says so comes
 * later, and a timer of the old page may run before it.
 */
export function go(target: string, replace = false): void {
  if (!replace) {
    location.hash = target;
  } else if (location.hash === fragment) {
    history.replaceState(null, "", target);
    update();
  }
}
