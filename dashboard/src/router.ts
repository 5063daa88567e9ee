// Routing by the fragment of the address: links work without any route on the server.
import { observable, useObservable } from "./hooks.ts";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

type QueryValues = Record<string, string | number | readonly string[] | null | undefined>;

/** Parse a fragment such as `#/jobs/4f2a?tab=log`; an empty path is the list of jobs. */
export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
  const names = path.split("/").filter((name) => name !== "");
  return { path: names.length > 0 ? names.map(decodeSegment) : ["jobs"], query: new URLSearchParams(query) };
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

const current = observable(currentRoute());
globalThis.addEventListener?.("hashchange", update);

/** The route of the address; the page on the screen may still be that of the route before. */
export function currentRoute(): Route {
  return parseRoute(globalThis.location?.hash ?? "");
}

function update(): void {
  current.set(currentRoute());
}

export function useRoute(): Route {
  return useObservable(current);
}

/** The page of a route: the first two names of its path, such as `jobs/4f2a`. */
export function pageOf({ path }: Route): string {
  return path.slice(0, 2).join("/");
}

export function currentPage(): string {
  return pageOf(currentRoute());
}

/**
 * Go to a fragment; `replace` stays on the page and adds no entry to the browser's history.
 *
 * Nothing is replaced once the browser has left the page, as by a link: a timer of that page may
 * still run, because effects are cleaned up only after the next page has been painted.
 */
export function go(target: string, replace = false): void {
  if (!replace) {
    location.hash = target;
  } else if (currentPage() === pageOf(parseRoute(target))) {
    history.replaceState(null, "", target);
    update();
  }
}

/** Go to a fragment, unless the user has left `page` while a request was under way. */
export function goFrom(page: string, target: string): void {
  if (currentPage() === page) go(target);
}
