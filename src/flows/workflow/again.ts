declare const AGAIN: unique symbol

/** The wish of a body to begin a new generation, made by `again`. It is opaque. */
export interface Again<I> {
  readonly [AGAIN]: I
}

/** A wish to begin a new generation, with its input. */
export class NextGeneration {
  readonly input: unknown

  constructor(input: unknown) {
    this.input = input
  }
}

/**
 * Makes the value that a body returns to begin a new generation: the same flow, id and key, with nothing remembered. Unread signals,
 * held permits and children stay. For loops that run for months.
 */
export function again<I>(input: I): Again<I> {
  return Object.freeze(new NextGeneration(input)) as unknown as Again<I>
}
