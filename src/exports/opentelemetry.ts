/** The door to OpenTelemetry: needs the optional peer `@opentelemetry/api`. */
import '../base/supported-node.ts'
export { instrument, type InstrumentOptions } from '../telemetry/instrument.ts'
