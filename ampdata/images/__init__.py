"""Image files, encoded images in columns, and folders of images."""
