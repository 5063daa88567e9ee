// The frame of every page: session, route, outage banner, notifications.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { pageOf, useRoute, type Route } from "./router.ts";
import { sessionEndCount } from "./api/connection.ts";
import { useObservable } from "./hooks.ts";
import { JobsPage } from "./pages/jobs/page.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { Header } from "./components/header.tsx";
import { EmptyState, LoadingState } from "./components/load-state.tsx";
import { Notifications } from "./components/notifications.tsx";
import { OutageBanner } from "./components/outage-banner.tsx";
import { followActivity, loadSession, session } from "./session.ts";

type Page = ComponentType<{ route: Route }>;
type Load = () => Promise<Page>;

const PAGES: Record<string, Load> = {
  job: async () => (await import("./pages/job/page.tsx")).JobPage,
  compare: async () => (await import("./pages/compare/page.tsx")).ComparePage,
  workers: async () => (await import("./pages/workers.tsx")).WorkersPage,
  studies: async () => (await import("./pages/studies/page.tsx")).StudiesPage,
  submit: async () => (await import("./pages/submit/page.tsx")).SubmitPage,
  datasets: async () => (await import("./pages/datasets/page.tsx")).DatasetsPage,
  notifications: async () => (await import("./pages/notifications/page.tsx")).NotificationsPage,
  models: async () => (await import("./pages/models/page.tsx")).ModelsPage,
  projects: async () => (await import("./pages/projects.tsx")).ProjectsPage,
  trash: async () => (await import("./pages/trash.tsx")).TrashPage,
  tokens: async () => (await import("./pages/tokens.tsx")).TokensPage,
};

export function App() {
  const currentSession = useObservable(session);
  const ended = useObservable(sessionEndCount);
  useEffect(() => void loadSession(), []);
  useEffect(() => {
    if (ended > 0) session.set(null);
  }, [ended]);
  return (
    <>
      <OutageBanner onReconnect={currentSession === undefined ? loadSession : undefined} />
      {currentSession === undefined ? <LoadingState what="dashboard" /> : currentSession === null ? <SignIn /> : <SignedInLayout />}
      <Notifications />
    </>
  );
}

function SignedInLayout() {
  const route = useRoute();
  const isPerson = useObservable(session)?.person != null;
  useEffect(() => (isPerson ? followActivity() : undefined), [isPerson]);
  useEffect(() => {
    // Most users open a job next: load its code in advance.
    const timer = setTimeout(() => void PAGES["job"]!().catch(() => undefined), 1000);
    return () => clearTimeout(timer);
  }, []);
  const [first = "", second] = route.path;
  const name = first === "jobs" && second ? "job" : first;
  return (
    <>
      <a class="skip-link" href="#main" onClick={focusMain}>Skip to main content</a>
      <Header at={first} />
      <main id="main" tabIndex={-1}>
        <ErrorBoundary key={pageOf(route)}>
          {name === "jobs" ? <JobsPage route={route} /> : <LazyPage name={name} route={route} />}
        </ErrorBoundary>
      </main>
    </>
  );
}

function focusMain(event: MouseEvent) {
  event.preventDefault(); // the fragment is the route
  document.getElementById("main")?.focus();
}

/** A page whose code is loaded when it is first opened. */
function LazyPage({ name, route }: { name: string; route: Route }) {
  const [page, setPage] = useState<{ name: string; Page: Page } | null>(null);
  const [failed, setFailed] = useState(false);
  const load = PAGES[name];
  useEffect(() => {
    setFailed(false);
    load?.().then((Page) => setPage({ name, Page }), () => setFailed(true));
  }, [name]);
  if (!load) return <EmptyState title="Page not found">Go to the <a href="#/jobs">list of jobs</a>.</EmptyState>;
  if (failed) return <ReloadPrompt />;
  return page?.name === name ? <page.Page route={route} /> : <LoadingState what="page" />;
}

function ReloadPrompt() {
  return (
    <EmptyState title="The page could not be loaded">
      The server may have been updated or may be unreachable.{" "}
      <button type="button" class="button" onClick={() => location.reload()}>Reload the page</button>
    </EmptyState>
  );
}

/** Shows an error if a page fails to render; another route resets it. */
class ErrorBoundary extends Component<{ children: ComponentChildren }, { message: string | null }> {
  override state = { message: null };

  static override getDerivedStateFromError(error: unknown) {
    return { message: String(error) };
  }

  override render() {
    if (this.state.message === null) return this.props.children;
    return (
      <EmptyState title="This page failed">
        <code>{this.state.message}</code>. Reload the page. If the error stays, contact the operator of this server.
      </EmptyState>
    );
  }
}
