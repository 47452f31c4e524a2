import { SluiceError } from '../base/errors.ts'

/** Thrown by a handler when another attempt cannot help. The job is discarded at once, despite its retry policy. */
export class NonRetryable extends SluiceError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('handler.nonretryable', message, typeof options === 'object' && options !== null ? options : {})
    this.name = 'NonRetryable'
  }
}
