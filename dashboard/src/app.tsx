// The frame around every page: who is signed in, where one may go, and whether the server is there.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { usePlace, type Place } from "./address.ts";
import { sessionEnded } from "./api/connection.ts";
import { useCell } from "./cell.ts";
import { JobsPage } from "./pages/jobs/page.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { Header } from "./parts/header.tsx";
import { Empty, Loading } from "./parts/standing.tsx";
import { Notices } from "./parts/notices.tsx";
import { OutageBanner } from "./parts/outage.tsx";
import { lookWhoIsThere, session } from "./session.ts";

type Page = ComponentType<{ place: Place }>;
type Load = () => Promise<Page>;

const PAGES: Record<string, Load> = {
  job: async () => (await import("./pages/job/page.tsx")).JobPage,
  compare: async () => (await import("./pages/compare/page.tsx")).ComparePage,
  workers: async () => (await import("./pages/workers.tsx")).WorkersPage,
  submit: async () => (await import("./pages/submit/page.tsx")).SubmitPage,
  tokens: async () => (await import("./pages/tokens.tsx")).TokensPage,
};

export function App() {
  const who = useCell(session);
  const ended = useCell(sessionEnded);
  useEffect(() => void lookWhoIsThere(), []);
  useEffect(() => {
    if (ended > 0) session.set(null);
  }, [ended]);
  return (
    <>
      <OutageBanner onBack={who === undefined ? lookWhoIsThere : undefined} />
      {who === undefined ? <Loading what="the dashboard" /> : who === null ? <SignIn /> : <SignedIn />}
      <Notices />
    </>
  );
}

function SignedIn() {
  const place = usePlace();
  useEffect(() => {
    // Most go to a job next: its page is fetched while nobody waits for it.
    const timer = setTimeout(() => void PAGES["job"]!().catch(() => undefined), 1000);
    return () => clearTimeout(timer);
  }, []);
  const [first = "jobs", second] = place.path;
  const name = first === "jobs" && second ? "job" : first;
  return (
    <>
      <a class="skip-link" href="#main" onClick={toMain}>Skip to the content</a>
      <Header at={first} />
      <main id="main" tabIndex={-1}>
        <Broken key={`${name}/${second}`}>
          {name === "jobs" ? <JobsPage place={place} /> : <Later name={name} place={place} />}
        </Broken>
      </main>
    </>
  );
}

function toMain(event: MouseEvent) {
  event.preventDefault(); // the fragment says where one is
  document.getElementById("main")?.focus();
}

/** A page that is fetched when it is first gone to. */
function Later({ name, place }: { name: string; place: Place }) {
  const [page, setPage] = useState<{ name: string; Page: Page } | null>(null);
  const [failed, setFailed] = useState(false);
  const load = PAGES[name];
  useEffect(() => {
    setFailed(false);
    load?.().then((Page) => setPage({ name, Page }), () => setFailed(true));
  }, [name]);
  if (!load) return <Empty title="There is no such page">The <a href="#/jobs">list of jobs</a> is a good place to start.</Empty>;
  if (failed) return <Reload />;
  return page?.name === name ? <page.Page place={place} /> : <Loading what="the page" />;
}

function Reload() {
  return (
    <Empty title="A part of the dashboard could not be loaded">
      The server may have been updated, or be away.{" "}
      <button type="button" class="button" onClick={() => location.reload()}>Load the page again</button>
    </Empty>
  );
}

/** Shows what to do where drawing a page failed; going elsewhere makes a new start. */
class Broken extends Component<{ children: ComponentChildren }, { message: string | null }> {
  override state = { message: null };

  static override getDerivedStateFromError(error: unknown) {
    return { message: String(error) };
  }

  override render() {
    if (this.state.message === null) return this.props.children;
    return (
      <Empty title="This page failed">
        <code>{this.state.message}</code>. Load the page again; if it stays, tell whoever runs this server.
      </Empty>
    );
  }
}
