// The schemas and examples of job specs, read from the OpenAPI document.
import type { JsonObject } from "../../api/types.ts";
import type { Schemas } from "./schema.ts";

export interface Example {
  summary: string;
  value: JsonObject;
}

export interface SpecDescription {
  schemas: Schemas;
  examples: Record<string, Example>;
}

export interface OpenApiDocument {
  components: { schemas: Schemas };
  paths: Record<string, { post?: { requestBody?: { content: Record<string, { examples?: Record<string, Example> }> } } }>;
}

export function parseDescription(document: OpenApiDocument): SpecDescription {
  const body = document.paths["/api/v1/jobs"]?.post?.requestBody;
  return { schemas: document.components.schemas, examples: body?.content["application/json"]?.examples ?? {} };
}
