// The models of the API by name, from the types generated from its OpenAPI document.
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

export type AliasChange = Schemas["AliasChange"];
export type AliasChangePage = Schemas["AliasChangePage"];
export type Allocation = Schemas["Allocation"];
export type AllocationList = Schemas["AllocationList"];
export type Artifact = Schemas["Artifact"];
export type ArtifactList = Schemas["ArtifactList"];
export type Attempt = Schemas["Attempt"];
export type AttemptList = Schemas["AttemptList"];
export type ChangedJobs = Schemas["ChangedJobs"];
export type Comparison = Schemas["Comparison"];
export type ComparedJob = Schemas["ComparedJob"];
export type Evaluation = Schemas["Evaluation"];
export type EvaluationPage = Schemas["EvaluationPage"];
export type Dataset = Schemas["Dataset"];
export type DatasetPage = Schemas["DatasetPage"];
export type DatasetVersion = Schemas["DatasetVersion"];
export type DatasetVersionPage = Schemas["DatasetVersionPage"];
export type Delivery = Schemas["Delivery"];
export type DeliveryPage = Schemas["DeliveryPage"];
export type Estimate = Schemas["Estimate"];
export type Event = Schemas["JobEvent"];
export type EventPage = Schemas["EventPage"];
export type Explanation = Schemas["Explanation"];
export type ExplanationCost = Schemas["ExplanationCost"];
export type ExplanationList = Schemas["ExplanationList"];
export type ExtensibleKindList = Schemas["ExtensibleKindList"];
export type Finding = Schemas["Finding"];
export type Figures = Schemas["PreflightFigures"];
export type Job = Schemas["Job"];
export type JobImage = Schemas["JobImage"];
export type JobImageList = Schemas["JobImageList"];
export type JobPage = Schemas["JobPage"];
export type ListedJob = Schemas["ListedJob"];
export type FoldedStudy = NonNullable<ListedJob["study"]>;
export type ListedDatasetVersion = Schemas["ListedDatasetVersion"];
export type LogEntry = Schemas["LogEntry"];
export type Project = Schemas["Project"];
export type ProjectList = Schemas["ProjectList"];
export type CreatedToken = Schemas["CreatedToken"];
export type Model = Schemas["Model"];
export type ModelFile = Schemas["ModelFile"];
export type ModelPage = Schemas["ModelPage"];
export type ModelVersion = Schemas["ModelVersion"];
export type ModelVersionPage = Schemas["ModelVersionPage"];
export type PartKindList = Schemas["SpecKindList"];
export type Person = Schemas["Person"];
export type PersonList = Schemas["PersonList"];
export type PersonSession = Schemas["PersonSession"];
export type PolicyList = Schemas["PolicyList"];
export type Problem = Schemas["ErrorResponse"];
export type ProblemDetail = Schemas["ProblemDetail"];
export type FormatReport = Schemas["FormatReport"];
export type Ranges = Schemas["Ranges"];
export type Session = Schemas["Session"];
export type SignInOptions = Schemas["SignInOptions"];
export type State = Schemas["State"];
export type Steps = Schemas["Steps"];
export type StoredFile = Schemas["StoredFile"];
export type Study = Schemas["Study"];
export type StudyFields = Schemas["StudyFields"];
export type StudyPage = Schemas["StudyPage"];
export type StudyJob = Schemas["StudyJob"];
export type PrecisionAnswer = Schemas["PrecisionAnswer"];
export type PolicyAnswer = Schemas["PolicyAnswer"];
export type BisectAnswer = Schemas["BisectAnswer"];
export type CapacityAnswer = Schemas["CapacityAnswer"];
export type SearchAnswer = Schemas["SearchAnswer"];
export type SearchRun = Schemas["SearchRun"];
export type Subscription = Schemas["Subscription"];
export type SubscriptionPage = Schemas["SubscriptionPage"];
export type NewSubscription = Schemas["SubscriptionWithSecret"];
export type Summary = Schemas["Summary"];
export type Token = Schemas["Token"];
export type TokenList = Schemas["TokenList"];
export type Upload = Schemas["Upload"];
export type Validation = Schemas["Validation"];
export type Version = Schemas["ServerVersion"];
export type Worker = Schemas["Worker"];
export type WorkerList = Schemas["WorkerList"];

/** A number of the API, where non-finite numbers are strings. */
export type Numeric = number | "NaN" | "Infinity" | "-Infinity";
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** The steps of an entry of the event stream, which the OpenAPI document does not describe. */
export interface StepsEvent {
  seq: number;
  attempt: number;
  first_step: number;
  data: Record<string, (boolean | Numeric | null)[]>;
}
