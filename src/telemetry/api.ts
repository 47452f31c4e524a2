import type * as Api from '@opentelemetry/api'
import { optionalPackage } from '../base/optional-package.ts'

/** The API that the program has installed. Its providers are shared by all copies of it in a process. */
export const api: typeof Api = optionalPackage('@opentelemetry/api', 'sluice/opentelemetry')
