/** The door for workers and clients in any language: an Open Job Spec server as a Fetch API handler. Needs hono and zod. */
import '../base/supported-node.ts'
export { createHttpApp, type HttpApp } from '../http/app.ts'
export type { HttpOptions } from '../http/http-options.ts'
export type { Bounds } from '../http/bounds.ts'
export type { ServedLimit, ServedLimits, ServedUse } from '../http/limit-rules.ts'
export type { Scope, Token } from '../http/token.ts'
