// The head of every page: where one may go, light or dark, and out.
import { useCell } from "../cell.ts";
import { attempt } from "../notices.ts";
import { session, signOut, useIsAdmin, useMaySteer } from "../session.ts";
import { choice, choose, type Choice } from "../theme.ts";

export function Header({ at }: { at: string }) {
  const who = useCell(session);
  const isAdmin = useIsAdmin();
  const maySteer = useMaySteer();
  return (
    <header class="top">
      <a class="brand" href="#/jobs"><Mark /> ampcore</a>
      <nav aria-label="Pages" class="pages">
        <To at={at} name="jobs">Jobs</To>
        <To at={at} name="compare">Compare</To>
        <To at={at} name="workers">Workers</To>
        {maySteer && <To at={at} name="submit">Submit</To>}
        {isAdmin && <To at={at} name="tokens">Tokens</To>}
        <a href="/api/v1/docs">API</a>
      </nav>
      <div class="who">
        <ThemeChoice />
        <span class="muted who-name" title={`Role: ${who?.role}; project: ${who?.project}`}>
          {who?.token_name}
        </span>
        <button type="button" class="button quiet" onClick={() => void attempt("You are signed out.", signOut)}>
          Sign out
        </button>
      </div>
    </header>
  );
}

function To({ at, name, children }: { at: string; name: string; children: string }) {
  return <a href={`#/${name}`} aria-current={at === name ? "page" : undefined}>{children}</a>;
}

export function ThemeChoice() {
  const chosen = useCell(choice);
  return (
    <select
      aria-label="Theme"
      class="quiet"
      value={chosen}
      onChange={(event) => choose(event.currentTarget.value as Choice)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

export function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="var(--accent)" />
      <path d="M5 21h5V10h6v11h5V14h6" fill="none" stroke="var(--on-accent)" stroke-width="2.6" />
    </svg>
  );
}
