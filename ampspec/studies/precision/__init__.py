"""Whether a precision policy trains as well as float32."""
