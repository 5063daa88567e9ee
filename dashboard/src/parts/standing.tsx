// What stands where there is nothing to show: still to come, nothing there, or not to be had.
import type { ComponentChildren } from "preact";
import { tryAgain } from "../api/connection.ts";
import type { ApiError } from "../api/request.ts";

export function Loading({ what }: { what: string }) {
  return <p class="standing" role="status">Loading {what} …</p>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="standing">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}

/** Why something cannot be shown, and what to do about it. */
export function Failure({ what, error }: { what: string; error: ApiError }) {
  return (
    <div class="standing" role="alert">
      <h2>{titleOf(what, error)}</h2>
      <p>{error.message}</p>
      <p>{adviceOf(error)}</p>
      <button type="button" class="button" onClick={tryAgain}>Try again</button>
    </div>
  );
}

function titleOf(what: string, error: ApiError): string {
  return error.status === 404 ? `There is no such ${what}` : `The ${what} cannot be shown`;
}

function adviceOf(error: ApiError): string {
  if (error.isOutage) return "This page asks again by itself until the server is back.";
  if (error.status === 403) return "Ask an admin for a token with another role, and sign in with it.";
  if (error.status === 404) return "It may have been deleted, or belong to another project.";
  if (error.status === 429) return "Wait a moment; this page asks again by itself.";
  return "If it stays like this, tell whoever runs this server.";
}

/** The first of: what went wrong, what is there, that it is still to come. */
export function Standing<T>(props: {
  what: string;
  of: { data: T | null; error: ApiError | null };
  children: (data: T) => ComponentChildren;
}) {
  const { data, error } = props.of;
  if (data !== null && !(error && error.status === 404)) return <>{props.children(data)}</>;
  return error ? <Failure what={props.what} error={error} /> : <Loading what={`the ${props.what}`} />;
}
