import { z } from 'zod'
import { ANSWER_SCHEMAS, answerOf, CONVENTIONS, exampleOf } from './open-api-answers.ts'
import type { Operation } from './operation.ts'

const MEDIA_TYPE = 'application/openjobspec+json'

/** The OpenAPI 3.1 document of these operations, made of the schemas that check their requests. */
export function openApi(operations: readonly Operation[], version: string, title: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  const named: Record<string, unknown> = {}
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:([a-z]+)/g, '{$1}')
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: describe(operation, named) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title,
      version,
      description: CONVENTIONS,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: ERROR, ...ANSWER_SCHEMAS, ...named },
    },
  }
}

const ERROR = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message', 'retryable'],
      properties: {
        code: { type: 'string' },
        message: { type: 'string' },
        retryable: { type: 'boolean' },
        type: { type: 'string' },
        details: { type: 'object' },
        hint: { type: 'string' },
        docs_url: { type: 'string' },
        request_id: { type: 'string' },
      },
    },
  },
}

function describe(
  { name, summary, right: { scope }, params, query, body, api, answer, answers }: Operation,
  named: Record<string, unknown>,
): Record<string, unknown> {
  const mediaType = api === 'monitor' ? 'application/json' : MEDIA_TYPE
  const refusal = {
    description: 'The server refused the request.',
    headers: { 'Retry-After': { description: 'Seconds; with 429 and 503.', schema: { type: 'integer' } } },
    content: { [mediaType]: { schema: { $ref: '#/components/schemas/Error' } } },
  }
  const parameters = [...parametersOf(params, 'path'), ...parametersOf(query, 'query')]
  return {
    operationId: name,
    summary,
    security: scope === null ? [] : [{ bearer: [] }],
    ...(scope !== null && { 'x-scope': scope }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: !body.safeParse(undefined).success,
        content: {
          [mediaType]: { schema: schemaOf(body), ...(exampleOf(name) !== undefined && { example: exampleOf(name) }) },
        },
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, description]) => [
          status,
          {
            description,
            ...(answer
              ? { content: { [mediaType]: { schema: answerSchema(answer, named) } } }
              : answerOf(name, mediaType)),
          },
        ]),
      ),
      default: refusal,
    },
  }
}

function parametersOf(schema: z.ZodType | null, place: 'path' | 'query'): object[] {
  if (!schema) return []
  const { properties, required } = flat(schemaOf(schema))
  return Object.entries(properties).map(([name, each]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: each,
  }))
}

interface ObjectSchema {
  readonly properties?: Record<string, unknown>
  readonly required?: string[]
  readonly allOf?: ObjectSchema[]
}

function flat(schema: ObjectSchema): { properties: Record<string, unknown>; required: string[] } {
  const parts = (schema.allOf ?? []).map(flat)
  return {
    properties: Object.assign({}, schema.properties, ...parts.map((part) => part.properties)) as Record<
      string,
      unknown
    >,
    required: [...(schema.required ?? []), ...parts.flatMap((part) => part.required)],
  }
}

/** The schema of an answer. It refers to the parts that have names, which go to `named`. */
function answerSchema(answer: z.ZodType, named: Record<string, unknown>): unknown {
  const { $defs = {}, ...schema } = JSON.parse(
    JSON.stringify(schemaOf(answer, 'output')).replaceAll('"#/$defs/', '"#/components/schemas/'),
  ) as { readonly $defs?: Record<string, object> }
  for (const [name, { id: _name, ...part }] of Object.entries($defs as Record<string, { readonly id?: string }>))
    named[name] = part
  return schema
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output' = 'input'): ObjectSchema {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Record<
    string,
    unknown
  >
  return json
}
