// The header of every page: navigation, theme, sign out.
import { useObservable } from "../hooks.ts";
import { runAndNotify } from "../notifications.ts";
import { openProject, session, signOut, useCanEditJobs, useCreatesTokens, useManagesProjects } from "../session.ts";
import { themeChoice, setThemeChoice, type ThemePreference } from "../theme.ts";

export function Header({ at }: { at: string }) {
  const currentSession = useObservable(session);
  const canEditJobs = useCanEditJobs();
  const managesProjects = useManagesProjects();
  const createsTokens = useCreatesTokens();
  return (
    <header class="top">
      <a class="brand" href="#/jobs"><Logo /> ampcore</a>
      <nav aria-label="Pages" class="pages">
        <NavLink at={at} name="jobs">Jobs</NavLink>
        <NavLink at={at} name="compare">Compare</NavLink>
        <NavLink at={at} name="studies">Studies</NavLink>
        <NavLink at={at} name="workers">Workers</NavLink>
        <NavLink at={at} name="datasets">Datasets</NavLink>
        <NavLink at={at} name="models">Models</NavLink>
        {canEditJobs && <NavLink at={at} name="submit">Submit</NavLink>}
        {canEditJobs && <NavLink at={at} name="notifications">Notifications</NavLink>}
        {managesProjects && <NavLink at={at} name="projects">Projects</NavLink>}
        {createsTokens && <NavLink at={at} name="tokens">Tokens</NavLink>}
        <a href="/api/v1/docs">API</a>
      </nav>
      <div class="who">
        <ThemeChoice />
        <ProjectChoice />
        <span class="muted who-name" title={`Role: ${currentSession?.role}; project: ${currentSession?.project}`}>
          {currentSession?.token_name}
        </span>
        <button type="button" class="button quiet" onClick={() => void runAndNotify("You are signed out.", signOut)}>
          Sign out
        </button>
      </div>
    </header>
  );
}

/** The projects of a person who has several. */
function ProjectChoice() {
  const current = useObservable(session);
  const grants = current?.person?.grants ?? [];
  if (grants.length < 2) return null;
  return (
    <select
      aria-label="Project"
      class="quiet"
      value={current?.project}
      onChange={({ currentTarget: { value } }) => void runAndNotify(`The project is ${value}.`, () => openProject(value))}
    >
      {grants.map(({ project }) => <option key={project}>{project}</option>)}
    </select>
  );
}

function NavLink({ at, name, children }: { at: string; name: string; children: string }) {
  return <a href={`#/${name}`} aria-current={at === name ? "page" : undefined}>{children}</a>;
}

export function ThemeChoice() {
  const chosen = useObservable(themeChoice);
  return (
    <select
      aria-label="Theme"
      class="quiet"
      value={chosen}
      onChange={(event) => setThemeChoice(event.currentTarget.value as ThemePreference)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="var(--accent)" />
      <path d="M5 21h5V10h6v11h5V14h6" fill="none" stroke="var(--on-accent)" stroke-width="2.6" />
    </svg>
  );
}
