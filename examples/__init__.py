"""Pictures made with lumijit, one module each; `gallery` renders them all."""
