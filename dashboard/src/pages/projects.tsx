// The page of projects, for admins: what each uses of its quotas, its disk use among them.
import { type Route } from "../router.ts";
import { usePoll } from "../api/use-poll.ts";
import type { Project, ProjectList } from "../api/types.ts";
import { EmptyState, LoadState } from "../components/load-state.tsx";
import { useManagesProjects } from "../session.ts";
import { bytes } from "../display/format.ts";
import { usedShare, usesOf, type Use } from "../display/projects.ts";

export function ProjectsPage(_: { route: Route }) {
  if (!useManagesProjects()) return <EmptyState title="Admin role required">Sign in with the token of an admin, or of an admin of a project.</EmptyState>;
  return <Projects />;
}

function Projects() {
  const projects = usePoll<ProjectList>("/projects", 10_000);
  return (
    <>
      <h1>Projects</h1>
      <p class="muted">What each project uses of its quotas. <code>ampctl project set</code> changes them.</p>
      <LoadState what="projects" of={projects}>
        {({ items }) => <ProjectTable projects={items} />}
      </LoadState>
    </>
  );
}

function ProjectTable({ projects }: { projects: readonly Project[] }) {
  const headings = usesOf(projects[0] ?? null).map(({ title }) => title);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All projects">
      <table class="table" aria-label="Projects">
        <thead><tr><th scope="col">Project</th>{headings.map((title) => <th key={title} scope="col" class="number">{title}</th>)}</tr></thead>
        <tbody>
          {projects.map((project) => (
            <tr key={project.name}>
              <th scope="row">{project.name}</th>
              {usesOf(project).map((use) => <td key={use.title} class="number"><UseCell project={project.name} use={use} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function UseCell({ project, use }: { project: string; use: Use }) {
  const text = (value: number) => (use.isBytes ? bytes(value) : value.toFixed(use.digits ?? 0));
  const share = usedShare(use);
  return (
    <div class="progress">
      <span>{text(use.used)}{use.quota !== null && ` of ${text(use.quota)}`}</span>
      {share !== null && <progress aria-label={`${use.title} of ${project}`} value={share} max={1} />}
    </div>
  );
}
