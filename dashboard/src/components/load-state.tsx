// What a page shows instead of data: loading, empty, or an error.
import type { ComponentChildren } from "preact";
import { retryAll } from "../api/connection.ts";
import type { ApiError } from "../api/request.ts";

export function LoadingState({ what }: { what: string }) {
  return <p class="load-state" role="status">Loading {what}…</p>;
}

export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="load-state">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}

/** An error with advice and a button to try again. */
export function LoadError({ what, error }: { what: string; error: ApiError }) {
  return (
    <div class="load-state" role="alert">
      <h2>{errorTitle(what, error)}</h2>
      <p>{error.message}</p>
      <p>{adviceFor(error)}</p>
      <button type="button" class="button" onClick={retryAll}>Try again</button>
    </div>
  );
}

function errorTitle(what: string, error: ApiError): string {
  return error.status === 404 ? `${what} not found` : `Could not load ${what}`;
}

function adviceFor(error: ApiError): string {
  if (error.isOutage) return "This page retries automatically until the server responds.";
  if (error.status === 403) return "Your token does not have the required role. Ask an admin for another token.";
  if (error.status === 404) return "It may have been deleted, or it belongs to another project.";
  if (error.status === 429) return "Too many requests. This page retries automatically.";
  return "If this continues, contact the operator of this server.";
}

/** The data once they have loaded; before that an error or the loading text. */
export function LoadState<T>(props: {
  what: string;
  of: { data: T | null; error: ApiError | null };
  children: (data: T) => ComponentChildren;
}) {
  const { data, error } = props.of;
  if (data !== null && !(error && error.status === 404)) return <>{props.children(data)}</>;
  return error ? <LoadError what={props.what} error={error} /> : <LoadingState what={props.what} />;
}
