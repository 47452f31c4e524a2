import { SluiceError } from '../base/errors.ts'

/** Thrown by a handler when another attempt cannot help: the job is discarded at once, whatever its retry policy says. */
export class NonRetryable extends SluiceError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('handler.nonretryable', message, typeof options === 'object' && options !== null ? options : {})
    this.name = 'NonRetryable'
  }
}
