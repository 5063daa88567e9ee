// Who is signed in. The secret itself goes to the server once and is kept nowhere here: the
// browser holds a cookie that no script can read.
import { failed } from "./api/connection.ts";
import { ApiError, ask, read } from "./api/request.ts";
import type { Session } from "./api/types.ts";
import { cell, useCell } from "./cell.ts";

/** undefined: not known yet; null: nobody. */
export const session = cell<Session | null | undefined>(undefined);

export async function lookWhoIsThere(): Promise<void> {
  try {
    session.set(await read<Session>("/session"));
  } catch (error) {
    if (failed(error).status === 401) session.set(null);
  }
}

/** Throws ApiError where the token is not valid. */
export async function signIn(token: string): Promise<void> {
  const answer = await ask<Session>("/session", { method: "POST", body: { token } });
  session.set(answer!.body);
}

export async function signOut(): Promise<void> {
  try {
    await ask("/session", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  session.set(null);
}

/** May the one who is signed in submit and steer jobs? */
export function useMaySteer(): boolean {
  const role = useCell(session)?.role;
  return role === "admin" || role === "member";
}

export function useIsAdmin(): boolean {
  return useCell(session)?.role === "admin";
}
