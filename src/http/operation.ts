import type { z } from 'zod'
import type { Access } from './access.ts'
import { type Right, rightOf } from './rights.ts'
import type { Server } from './server.ts'

/** The methods that operations have. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** One checked request: the input of its operation. */
export interface Call<P, Q, B> {
  readonly server: Server
  readonly params: P
  readonly query: Q
  readonly body: B
  /** Empty: none. */
  readonly tenant: string
  readonly access: Access
  /** The parts of the query, as they were sent. */
  readonly search: () => URLSearchParams
  /** The caller's rights at this moment, for an answer that stays open. @throws {Refusal} 401 */
  readonly again: () => Promise<Access>
  /**
   * Says whose thing the request is about, by its stored name: viewers of that tenant look again after a change. Null:
   * all tenants see the thing.
   */
  readonly concerns: (stored: string | null) => void
  /** Aborts when the client has disconnected. */
  readonly gone: () => AbortSignal
  /** A header of the request; null if it is absent. */
  readonly header: (name: string) => string | null
  readonly requestId: string
}

/** The answer of an operation. */
export interface Reply {
  readonly status: number
  /** Sent as JSON, unless it is a text or a stream with its own content type. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** It has changed nothing, so it is not recorded. */
  readonly unchanged?: true
}

/** One operation: its path, its input and its work. The same schemas check requests and make the OpenAPI document. */
export interface Operation {
  readonly method: Method
  /** With parameters as in `/jobs/:id`. */
  readonly path: string
  readonly name: string
  readonly summary: string
  /** The right that a token needs. */
  readonly right: Right
  /** It exists in test mode only. */
  readonly testOnly: boolean
  /** Monitors call it every few seconds: it gets no line in the log. */
  readonly probe: boolean
  /** Its conventions: those of the Open Job Spec, or those of the monitor. */
  readonly api: 'ojs' | 'monitor'
  /** The names that its query may have several times. */
  readonly repeats: readonly string[]
  readonly params: z.ZodType | null
  readonly query: z.ZodType | null
  readonly body: z.ZodType | null
  /** Its statuses beside refusals, with their meanings. */
  readonly answers: Readonly<Record<number, string>>
  /** The body of its success; null: another table describes it. */
  readonly answer: z.ZodType | null
  run(call: Call<never, never, never>): Promise<Reply>
}

/** The parts of an operation, as its file writes them. */
export interface Spec<
  P extends z.ZodType | undefined,
  Q extends z.ZodType | undefined,
  B extends z.ZodType | undefined,
> {
  readonly method: Method
  readonly path: string
  /** Its row in the table of rights. */
  readonly name: string
  readonly summary: string
  readonly testOnly?: true
  readonly probe?: true
  readonly api?: 'monitor'
  readonly repeats?: readonly string[]
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  readonly answers: Readonly<Record<number, string>>
  readonly answer?: z.ZodType
  run(call: Call<Out<P>, Out<Q>, Out<B>>): Promise<Reply>
}

/** The output of a schema; undefined without one. */
export type Out<S> = S extends z.ZodType ? z.output<S> : undefined

/** Defines an operation. */
export function operation<
  P extends z.ZodType | undefined = undefined,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
>(spec: Spec<P, Q, B>): Operation {
  const { testOnly = false, probe = false, api = 'ojs', repeats = [], params, query, body, answer } = spec
  return {
    ...spec,
    right: rightOf(spec.name),
    testOnly,
    probe,
    api,
    repeats,
    params: params ?? null,
    query: query ?? null,
    body: body ?? null,
    answer: answer ?? null,
    run: (call) => spec.run(call),
  }
}

/** The same operation under another path or method. */
export function alias(of: Operation, at: { readonly method?: Method; readonly path: string }): Operation {
  return { ...of, ...at, name: `${of.name}_at_${at.path.replaceAll(/[^a-z]+/g, '_')}` }
}

/** Makes a 200 with a JSON body. */
export function ok(body: unknown, headers?: Readonly<Record<string, string>>): Reply {
  return { status: 200, body, ...(headers && { headers }) }
}
