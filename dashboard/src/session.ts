// The session. The token is sent to the server once and not stored here: the browser holds a cookie
// that scripts cannot read. A person may sign in with a provider instead, which ends in such a cookie.
import { toApiError } from "./api/connection.ts";
import { ApiError, fetchApi, getJson } from "./api/request.ts";
import type { Session } from "./api/types.ts";
import { observable, useObservable } from "./hooks.ts";

const MAX_PLACE = 900;
/** A session that nobody uses ends after hours: a minute more or less does not matter. */
const ACTIVITY_EVERY_MS = 60_000;

const ACTIVITY = ["pointerdown", "keydown", "wheel"] as const;

/** undefined: not loaded yet; null: signed out. */
export const session = observable<Session | null | undefined>(undefined);

export async function loadSession(): Promise<void> {
  try {
    session.set(await getJson<Session>("/session"));
  } catch (error) {
    if (toApiError(error).status === 401) session.set(null);
  }
}

/** Throws ApiError if the token is not valid. */
export async function signIn(token: string): Promise<void> {
  const response = await fetchApi<Session>("/session", { method: "POST", body: { token } });
  session.set(response!.body);
}

/** Where a browser goes to sign in with the provider, and comes back to the page that it shows now. */
export function providerAddress(url: string): string {
  const place = `/${location.hash}`;
  return place === "/" || place.length > MAX_PLACE ? url : `${url}?${new URLSearchParams({ return_to: place })}`;
}

/** A function that reports what a person does, at most once a minute. */
export function activityReporter(report: () => void, now: () => number = Date.now): () => void {
  let reportedAt = -Infinity;
  return () => {
    if (now() - reportedAt < ACTIVITY_EVERY_MS) return;
    reportedAt = now();
    report();
  };
}

/** Say that the person is there, now and when it clicks, types or scrolls: what pages request by themselves does not count. */
export function followActivity(): () => void {
  const ignore = () => undefined; // an outage, or an ended session, shows elsewhere
  const report = activityReporter(() => void fetchApi("/session/activity", { method: "PUT" }).catch(ignore));
  report();
  for (const kind of ACTIVITY) addEventListener(kind, report, { passive: true });
  return () => ACTIVITY.forEach((kind) => removeEventListener(kind, report));
}

/** Open another project of the person; every page then shows that one. */
export async function openProject(project: string): Promise<void> {
  await fetchApi("/session", { method: "PATCH", body: { project } });
  location.reload();
}

export async function signOut(): Promise<void> {
  try {
    await fetchApi("/session", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  session.set(null);
}

/** True if the role allows submitting and controlling jobs. */
export function useCanEditJobs(): boolean {
  const role = useObservable(session)?.role;
  return role === "admin" || role === "member";
}

/** True for an admin, and for a member with the scope to administer its project. */
export function useManagesProjects(): boolean {
  const current = useObservable(session);
  return current?.role === "admin" || (current?.role === "member" && (current.scopes ?? []).includes("project:admin"));
}

export function useIsAdmin(): boolean {
  return useObservable(session)?.role === "admin";
}

/** True for who may create tokens: admins, and people who have signed in with the provider. */
export function useCreatesTokens(): boolean {
  const isPerson = useObservable(session)?.person != null;
  return useManagesProjects() || isPerson;
}
