import { type ErrorCode, type ErrorEntry, OF_PROCESSES, REGISTRY } from './errors.ts'
import { FLOW_ERRORS } from './flow-errors.ts'

/**
 * Every error code with its meaning and remedy. docs/reference/errors.md has an entry for each. It stands by itself, so
 * that a bundle of code that throws errors leaves their texts out.
 */
export const ERRORS: Readonly<Record<ErrorCode, ErrorEntry>> = { ...REGISTRY, ...FLOW_ERRORS, ...OF_PROCESSES }
